/** Keys of the frontends that Services claim. */
import type { Family } from '../net/address.ts';
import type { Protocol } from '../net/protocol.ts';
import { frontendKey, nodePortKey } from './frontend-key.ts';
import type { NodePortKey } from './neighbours.ts';
import type { Frontend } from './types.ts';

/** Identifies a frontend whatever its family and protocol. */
export type ClaimKey = number | string;

const protocolNumbers = { TCP: 0, UDP: 1, SCTP: 2 } as const satisfies Record<Protocol, number>;

/** A number for IPv4 addresses: strings for tens of thousands of Services would take memory. */
export function claimKey(
  family: Family,
  protocol: Protocol,
  frontend: Pick<Frontend, 'address' | 'port'>,
): ClaimKey {
  const key = frontendKey(frontend);
  // The protocol goes above the 48 bits of address and port.
  if (typeof key === 'number' && key >= 0) return protocolNumbers[protocol] * 2 ** 48 + key;
  return `${family} ${protocol} ${key}`;
}

export function nodePortClaim(family: Family, protocol: Protocol, port: number): NodePortKey {
  return `${family} ${protocol} ${nodePortKey(port)}`;
}

/** Node ports of a health-check node port, which answers in both families; 0 = none. */
export function nodePortsOf(healthCheckNodePort: number): readonly NodePortKey[] {
  if (healthCheckNodePort === 0) return [];
  return (['IPv4', 'IPv6'] as const).map((family) =>
    nodePortClaim(family, 'TCP', healthCheckNodePort),
  );
}

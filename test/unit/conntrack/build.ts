/** Forwardings of DNS-like Services, as short as a test wants to say them. */
import { ConntrackReconciler } from '../../../src/conntrack/reconciler.ts';
import type { Protocol } from '../../../src/net/protocol.ts';
import { FrontendsInForce } from '../../../src/state/frontends-in-force.ts';
import type { Forwarding, Service } from '../../../src/state/types.ts';
import {
  address,
  type Endpoint,
  ready,
  resolveOne,
  service,
  slice,
  slicePort,
} from '../state/build.ts';

export const nodeAddress = '192.168.0.1';

type Options = ConstructorParameters<typeof ConntrackReconciler>[0];

/** Of IPv4. */
export function reconcilerOf(
  { conntrack, clock }: Pick<Options, 'conntrack' | 'clock'>,
  more: Partial<Options> = {},
): ConntrackReconciler {
  const localAddresses = () => [address(nodeAddress)];
  const all = { conntrack, clock, localAddresses, observer: () => {}, ...more };
  return new ConntrackReconciler({ inForce: new FrontendsInForce('IPv4'), ...all });
}

type Fields = Omit<Parameters<typeof service>[0] & object, 'ports'> & {
  protocol?: Protocol;
  nodePort?: number;
  port?: number;
  /** Target port. */
  target?: number;
};

/**
 * Service ns/dns, UDP port 53 of 10.96.0.10, with these endpoints at port 5353: addresses, or how
 * they are.
 */
export function dns(
  endpoints: readonly string[] | Readonly<Record<string, Endpoint>>,
  fields: Fields = {},
): Forwarding {
  const { protocol = 'UDP', nodePort = 0, port = 53, target = 5353, ...rest } = fields;
  const of: Service = service({
    name: 'dns',
    clusterIPs: ['10.96.0.10'],
    ...rest,
    ports: [{ name: 'dns', protocol, port, nodePort }],
  });
  const byAddress = isList(endpoints)
    ? Object.fromEntries(endpoints.map((address) => [address, ready]))
    : endpoints;
  const [family] = of.clusterIPs.map((address) => address.family);
  const ports = [slicePort('dns', target, protocol)];
  return resolveOne(of, [slice(byAddress, { ports, ...(family && { family }) })]);
}

function isList(
  endpoints: readonly string[] | Readonly<Record<string, Endpoint>>,
): endpoints is readonly string[] {
  return Array.isArray(endpoints);
}

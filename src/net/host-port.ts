import { type Address, parseAddress } from './address.ts';
import type { Protocol } from './protocol.ts';

/** An address and a port, the port in host order. */
export interface HostPort {
  readonly address: Address;
  readonly port: number;
}

/**
 * Splits `host:port` as Go's net.SplitHostPort does. A host with colons must be in brackets, which
 * are removed.
 *
 * @returns undefined if there is no port or the brackets do not match.
 */
export function splitHostPort(text: string): { host: string; port: string } | undefined {
  const match = /^(?:\[([^[\]]*)\]|([^:[\]]*)):([^:[\]]*)$/.exec(text);
  return match ? { host: match[1] ?? match[2] ?? '', port: match[3]! } : undefined;
}

/**
 * Splits `HOST:PORT` or `HOST:PORT/PROTOCOL`. The protocol is TCP, UDP or SCTP in any case.
 *
 * @returns undefined if the text has another form.
 */
export function splitTarget(text: string): SplitTarget | undefined {
  const [, place = '', name] = /^(.*?)(?:\/(tcp|udp|sctp))?$/i.exec(text) ?? [];
  const parts = splitHostPort(place);
  return parts && { ...parts, protocol: name?.toUpperCase() as Protocol | undefined };
}

interface SplitTarget {
  readonly host: string;
  readonly port: string;
  readonly protocol: Protocol | undefined;
}

/** The reverse of `formatEndpoint`; undefined if the text is not an address and a port. */
export function parseEndpoint(text: string): HostPort | undefined {
  const parts = splitHostPort(text);
  const address = parts && parseAddress(parts.host);
  return address && { address, port: Number(parts.port) };
}

/** `80`, or `10000-19999` where there is a last port. */
export function formatPorts(ports: {
  readonly port: number;
  readonly lastPort?: number | undefined;
}): string {
  const { lastPort, port } = ports;
  return lastPort === undefined ? String(port) : `${port}-${lastPort}`;
}

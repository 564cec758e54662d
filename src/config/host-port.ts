import { type Address, formatEndpoint } from '../net/address.ts';
import type { Protocol } from '../net/protocol.ts';

/** An address to listen on; `port` in host order, 1–65535. */
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

/** The text that a listener's log line or a redirect shows. */
export function formatHostPort(hostPort: HostPort): string {
  return formatEndpoint(hostPort.address.bytes, hostPort.port);
}

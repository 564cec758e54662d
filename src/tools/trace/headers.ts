/** Addresses and ports in the headers of a traced packet, from the kernel's events. */
import type { ReplyOf } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { formatEndpoint } from '../../net/address.ts';

export type TraceEvent = ReplyOf<'nftraceEvent'>;

export interface Headers {
  /** IPPROTO_* */
  readonly protocol: number;
  readonly source: Uint8Array;
  readonly sourcePort: number;
  readonly destination: Uint8Array;
  readonly destinationPort: number;
}

/** Undefined if the packet has none, or the headers are cut off before them. */
export function headersOf(event: TraceEvent): Headers | undefined {
  const { networkHeader: network, packetFamily, transportHeader: transport } = event;
  const isV4 = packetFamily === NFPROTO.IPv4;
  if (network.length < (isV4 ? 20 : 40) || transport.length < 4) return undefined;
  const [source, destination] = isV4 ? [12, 16] : [8, 24];
  const bytes = isV4 ? 4 : 16;
  return {
    protocol: network[isV4 ? 9 : 6]!,
    source: network.slice(source, source + bytes),
    sourcePort: (transport[0]! << 8) | transport[1]!,
    destination: network.slice(destination, destination + bytes),
    destinationPort: (transport[2]! << 8) | transport[3]!,
  };
}

/** `10.244.1.5:41234` */
export function sourceText({ source, sourcePort }: Headers): string {
  return formatEndpoint(source, sourcePort);
}

/** `10.96.0.1:80` */
export function destinationText({ destination, destinationPort }: Headers): string {
  return formatEndpoint(destination, destinationPort);
}

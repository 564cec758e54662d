/** Entries of connection tracking, packed because a table may hold a million. */
import { addressBytes, type Family, formatEndpoint } from '../net/address.ts';
import { type EndpointKey, endpointKey } from '../net/endpoint-list.ts';
import type { Protocol } from '../net/protocol.ts';
import { protocolOf } from './nft/constants.ts';

/** Bits of an entry's status (linux/netfilter/nf_conntrack_common.h). */
export const IPS = { SEEN_REPLY: 2, ASSURED: 4, SRC_NAT: 16, DST_NAT: 32, DYING: 512 } as const;

/** States of TCP (linux/netfilter/nf_conntrack_tcp.h). */
const TCP_CONNTRACK = { TIME_WAIT: 7, CLOSE: 8 } as const;

/** One address and port of an entry. */
type ConntrackPeer = 'originalSource' | 'originalDestination' | 'replySource' | 'replyDestination';

const peers: readonly ConntrackPeer[] = [
  'originalSource',
  'originalDestination',
  'replySource',
  'replyDestination',
];

/** Bytes after the four addresses and ports. */
const tailBytes = 12;

/** Packed entries of one family, as the record `conntrackEntries` has them (`ops.ts`). */
export class ConntrackEntries {
  readonly family: Family;
  readonly bytes: Uint8Array;
  /** Bytes of one address and port. */
  readonly #peerBytes: number;
  readonly #stride: number;
  readonly #view: DataView;

  constructor(family: Family, bytes: Uint8Array) {
    this.family = family;
    this.bytes = bytes;
    this.#peerBytes = addressBytes[family] + 2;
    this.#stride = peers.length * this.#peerBytes + tailBytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  static concat(family: Family, parts: readonly ConntrackEntries[]): ConntrackEntries {
    return new ConntrackEntries(family, Buffer.concat(parts.map(({ bytes }) => bytes)));
  }

  get length(): number {
    return this.bytes.length / this.#stride;
  }

  /** As `EndpointList.key`. */
  key(index: number, peer: ConntrackPeer): EndpointKey {
    return endpointKey(this.family, this.bytes, this.#at(index, peer));
  }

  /** Network order; a view, not a copy. */
  address(index: number, peer: ConntrackPeer): Uint8Array {
    const at = this.#at(index, peer);
    return this.bytes.subarray(at, at + addressBytes[this.family]);
  }

  /** Host order. */
  port(index: number, peer: ConntrackPeer): number {
    return this.#view.getUint16(this.#at(index, peer) + addressBytes[this.family]);
  }

  protocol(index: number): Protocol {
    return protocolOf(this.bytes[this.#tail(index)]) ?? 'SCTP';
  }

  /** Whether it is a connection of TCP of which no packet comes any more. */
  isClosed(index: number): boolean {
    const state = this.bytes[this.#tail(index) + 1]!;
    return state === TCP_CONNTRACK.TIME_WAIT || state === TCP_CONNTRACK.CLOSE;
  }

  /** Bits of `IPS`. */
  status(index: number): number {
    return this.#view.getUint32(this.#tail(index) + 4, true);
  }

  /** Differs from that of a later entry with the same tuples. */
  id(index: number): number {
    return this.#view.getUint32(this.#tail(index) + 8, true);
  }

  /** The entries from `start` to before `end`; a view, not a copy. */
  slice(start: number, end: number): ConntrackEntries {
    const bytes = this.bytes.subarray(start * this.#stride, end * this.#stride);
    return new ConntrackEntries(this.family, bytes);
  }

  /** A copy of the entries whose index `keep` accepts. */
  filter(keep: (index: number) => boolean): ConntrackEntries {
    const kept: Uint8Array[] = [];
    for (let i = 0; i < this.length; i += 1) if (keep(i)) kept.push(this.slice(i, i + 1).bytes);
    return new ConntrackEntries(this.family, Buffer.concat(kept));
  }

  /** `UDP 10.0.0.1:5000 > 10.96.0.10:53, reply 10.244.0.7:53 > 10.0.0.1:5000`. */
  text(index: number): string {
    const [from, to, replyFrom, replyTo] = peers.map((peer) => this.#peerText(index, peer));
    return `${this.protocol(index)} ${from} > ${to}, reply ${replyFrom} > ${replyTo}`;
  }

  #peerText(index: number, peer: ConntrackPeer): string {
    return formatEndpoint(this.address(index, peer), this.port(index, peer));
  }

  #at(index: number, peer: ConntrackPeer): number {
    return index * this.#stride + peers.indexOf(peer) * this.#peerBytes;
  }

  #tail(index: number): number {
    return (index + 1) * this.#stride - tailBytes;
  }
}

import type { ReplyOf } from '../../kernel/kernel.ts';
import { addressBytes, type Family } from '../../net/address.ts';
import { PackedBytes } from '../../net/bytes.ts';
import { type EndpointKey, endpointBytes, endpointKey } from '../../net/endpoint-list.ts';

export interface ObservedServer {
  /** As in an EndpointList. */
  readonly packed: Uint8Array;
  readonly weight: number;
  /** IP_VS_CONN_F_* */
  readonly forwarding: number;
  /** Active and inactive ones. */
  readonly connections: number;
}

/** The weight, the forwarding method and the connections, four bytes each. */
const numberBytes = 12;

/**
 * The real servers of one virtual service. They are packed, because a node has hundreds of
 * thousands of them, and an object for each takes fifty times as much.
 */
export class ObservedServers {
  readonly #family: Family;
  readonly #stride: number;
  readonly #packed: PackedBytes;

  constructor(family: Family) {
    this.#family = family;
    this.#stride = endpointBytes[family] + numberBytes;
    this.#packed = new PackedBytes(this.#stride);
  }

  add(record: ReplyOf<'destination'>): void {
    // A tunnel may lead to an address of the other family. We make none.
    if (record.destination.length !== addressBytes[this.#family]) return;
    const at = this.#packed.extend();
    const { buffer } = this.#packed;
    buffer.set(record.destination, at);
    const view = new DataView(buffer.buffer);
    view.setUint16(at + record.destination.length, record.destinationPort);
    const numbersAt = at + endpointBytes[this.#family];
    view.setUint32(numbersAt, record.weight);
    view.setUint32(numbersAt + 4, record.forwarding);
    view.setUint32(numbersAt + 8, record.activeConnections + record.inactiveConnections);
  }

  *entries(): Generator<readonly [EndpointKey, ObservedServer]> {
    const { bytes } = this.#packed;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let at = 0; at < bytes.length; at += this.#stride) {
      const numbersAt = at + endpointBytes[this.#family];
      const server = {
        packed: bytes.subarray(at, numbersAt),
        weight: view.getUint32(numbersAt),
        forwarding: view.getUint32(numbersAt + 4),
        connections: view.getUint32(numbersAt + 8),
      };
      yield [endpointKey(this.#family, bytes, at), server];
    }
  }

  /** Those of all real servers. */
  get connections(): number {
    let sum = 0;
    for (const [, { connections }] of this.entries()) sum += connections;
    return sum;
  }
}

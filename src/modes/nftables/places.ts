/** Where the elements of a frontend live: by its kind, and those of its pool by its shard. */
import { type SetName, type Shard, shards } from './layout.ts';

export interface Place {
  /** No two places have the same; from 0. */
  readonly number: number;
  readonly prefix: '' | 'nodeport-';
  /** Ends the names of chains that pick from `endpoints`. */
  readonly suffix: '' | `-${Shard}`;
  readonly verdicts: SetName;
  readonly endpoints: SetName;
  readonly localEndpoints: SetName;
  readonly noEndpoints: SetName;
  readonly learn: SetName;
}

/** By address and port. */
const servicePlaces: readonly Place[] = shards.map((shard, number) => ({
  number,
  prefix: '',
  suffix: `-${shard}`,
  verdicts: 'services',
  endpoints: `endpoints-${shard}`,
  localEndpoints: 'local-endpoints',
  noEndpoints: 'no-endpoint-services',
  learn: 'learn',
}));

/** By node port alone. */
const nodePortPlace: Place = {
  number: servicePlaces.length,
  prefix: 'nodeport-',
  suffix: '',
  verdicts: 'nodeports',
  endpoints: 'nodeport-endpoints',
  localEndpoints: 'nodeport-local-endpoints',
  noEndpoints: 'no-endpoint-nodeports',
  learn: 'learn-nodeports',
};

export const places: readonly Place[] = [...servicePlaces, nodePortPlace];

/** What a frontend is found by: `address . protocol . port`, or `protocol . port`. */
export type FrontendKind = 'service' | 'nodePort';

/**
 * The place of the frontend whose key, each part of it padded to 4 bytes, is in `bytes`, from byte
 * `from` to before `to`.
 */
export function placeOf(
  kind: FrontendKind,
  bytes: Uint8Array,
  from = 0,
  to: number = bytes.length,
): Place {
  if (kind === 'nodePort') return nodePortPlace;
  return servicePlaces[hashOf(bytes, from, to) % servicePlaces.length]!;
}

/** FNV-1a, its high bits folded into the low ones: addresses that follow each other spread. */
export function hashOf(bytes: Uint8Array, from: number, to: number): number {
  let value = 0x811c9dc5;
  for (let i = from; i < to; i += 1) value = Math.imul(value ^ bytes[i]!, 0x01000193);
  return (value ^ (value >>> 15)) >>> 0;
}

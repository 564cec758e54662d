/** Which maps hold the elements of a frontend: by its kind, and those of its pool by shard. */
import { type SetName, type Shard, shards } from './layout.ts';

/** The form of a frontend's key: `address . protocol . port`, or `protocol . port`. */
export type FrontendKind = 'service' | 'nodePort';

/** One map for each protocol (IPPROTO_*), where keys have none. */
export type LearnMaps = Readonly<Record<number, SetName>>;

export interface FrontendMaps {
  /** Its index among all FrontendMaps. */
  readonly number: number;
  readonly kind: FrontendKind;
  readonly prefix: '' | 'nodeport-';
  /** Ends the names of chains that pick from `endpoints`. */
  readonly suffix: '' | `-${Shard}`;
  readonly endpoints: SetName;
  readonly localEndpoints: SetName;
  /** The set that counts connections to the frontend, if traffic is counted. */
  readonly counts: 'connections' | 'nodeport-connections';
}

/** For frontends with an address. */
const serviceMaps: readonly FrontendMaps[] = shards.map((shard, number) => ({
  number,
  kind: 'service',
  prefix: '',
  suffix: `-${shard}`,
  endpoints: `endpoints-${shard}`,
  localEndpoints: 'local-endpoints',
  counts: 'connections',
}));

/** For node ports. */
const nodePortMaps: FrontendMaps = {
  number: serviceMaps.length,
  kind: 'nodePort',
  prefix: 'nodeport-',
  suffix: '',
  endpoints: 'nodeport-endpoints',
  localEndpoints: 'nodeport-local-endpoints',
  counts: 'nodeport-connections',
};

export const frontendMaps: readonly FrontendMaps[] = [...serviceMaps, nodePortMaps];

/** Bytes of protocol and port, the last parts of each key. */
const endLength = 8;

/** The element of a frontend with this key in a map, or in that of its protocol. */
export function elementIn(maps: SetName | LearnMaps, key: string): { set: SetName; key: string } {
  if (typeof maps === 'string') return { set: maps, key };
  const at = key.length - endLength;
  const short = key.slice(0, at) + key.slice(at + 4);
  return { set: maps[key.charCodeAt(at)]!, key: short };
}

/** The key of the frontend that the element with `key` in a map for `protocol` belongs to. */
export function learnFrontendKey(key: Uint8Array, protocol: number): Uint8Array {
  const at = key.length - 4;
  const whole = new Uint8Array(key.length + 4);
  whole.set(key.subarray(0, at));
  whole[at] = protocol;
  whole.set(key.subarray(at), at + 4);
  return whole;
}

/**
 * The maps of the frontend whose key, each part of it padded to 4 bytes, is in `bytes`, from byte
 * `from` to before `to`.
 */
export function mapsOfKey(
  kind: FrontendKind,
  bytes: Uint8Array,
  from = 0,
  to: number = bytes.length,
): FrontendMaps {
  if (kind === 'nodePort') return nodePortMaps;
  return serviceMaps[hashOf(bytes, from, to) % serviceMaps.length]!;
}

/** FNV-1a with its high bits folded into the low ones, so that adjacent addresses spread. */
export function hashOf(bytes: Uint8Array, from: number, to: number): number {
  let value = 0x811c9dc5;
  for (let i = from; i < to; i += 1) value = Math.imul(value ^ bytes[i]!, 0x01000193);
  return (value ^ (value >>> 15)) >>> 0;
}

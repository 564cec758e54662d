/** Sets and maps of nf_tables: their definition, and their ops for the addon. */

import type { Family } from '../../net/address.ts';
import type { ReplyOf } from '../kernel.ts';
import { ElementShape } from '../ops.ts';
import {
  concatBytes,
  concatType,
  NFPROTO,
  NFT_DATA_VERDICT,
  NFT_SET,
  type NFTypeName,
} from './constants.ts';
import { compileRule, type Statement } from './rule.ts';
import { counter } from './stateful.ts';

const noBytes = new Uint8Array(0);

/** A set or a map that a mode makes. */
export interface SetDefinition {
  readonly name: string;
  readonly key: readonly NFTypeName[];
  /** Undefined for a set. */
  readonly data: readonly NFTypeName[] | 'verdict' | undefined;
  /** NFT_SET_* beyond those that follow from key and data. */
  readonly flags: number;
  /** Most elements that packets may add; 0 where only we add. */
  readonly size: number;
  /** Each element counts the packets that are looked up with its key, or that write it. */
  readonly isCounted?: boolean;
  /** What each element has instead of a counter, for the same packets. */
  readonly statement?: Statement;
  /** Each element has a comment, which says whose it is. Only in verdict maps. */
  readonly isCommented?: boolean;
  /** Elements that packets do not look up or write for this time expire; default: none do. */
  readonly timeoutMs?: number;
  readonly comment: string;
}

/** The fields of a `setAdd` op for `definition`; a dumped `set` record must show the same. */
export function fieldsOfSet(family: Family, table: string, definition: SetDefinition) {
  const { key, data } = definition;
  const statement = definition.isCounted ? counter : definition.statement;
  return {
    family: NFPROTO[family] as number,
    table,
    set: definition.name,
    flags: definition.flags,
    keyType: concatType(key),
    keyLength: concatBytes(key),
    dataType: data === undefined ? 0 : data === 'verdict' ? NFT_DATA_VERDICT : concatType(data),
    dataLength: data === undefined || data === 'verdict' ? 0 : concatBytes(data),
    timeoutMs: definition.timeoutMs ?? 0,
    size: definition.size,
    statement: statement === undefined ? noBytes : compileRule([statement]),
    comment: definition.comment,
  };
}

export type SetFields = ReturnType<typeof fieldsOfSet>;

/** Parts of an entry (ElementShape) when an element of `definition` is added. */
export function entryShape(definition: SetDefinition): number {
  if (definition.data === 'verdict') {
    return ElementShape.verdict | (definition.isCommented ? ElementShape.comment : 0);
  }
  if (definition.data !== undefined) return ElementShape.data;
  return (definition.flags & NFT_SET.INTERVAL) !== 0 ? ElementShape.flags : 0;
}

/** The same when it is dumped. */
export function dumpShape(definition: SetDefinition): number {
  return entryShape(definition) | (definition.isCounted ? ElementShape.counter : 0);
}

/**
 * Returns the size that the kernel gives a set of size 0 when a rule fills it (nft_dynset_init). We
 * do not request that size, because the kernel would then allocate all buckets immediately: 2 MiB
 * (nft_rhash_init).
 */
function sizeByDefault({ flags, size }: SetFields): number {
  return size === 0 && (flags & NFT_SET.EVAL) !== 0 ? 0xffff : size;
}

/** Reports whether the kernel's set is as desired. No field of a set can be changed in place. */
export function isDesiredSet(has: ReplyOf<'set'>, desired: SetFields): boolean {
  return (
    has.flags === desired.flags &&
    has.keyType === desired.keyType &&
    has.keyLength === desired.keyLength &&
    has.dataType === desired.dataType &&
    (has.size === desired.size || has.size === sizeByDefault(desired)) &&
    has.timeoutMs === desired.timeoutMs &&
    Buffer.compare(has.statement, desired.statement) === 0 &&
    // We ask for neither.
    has.policy === 0 &&
    has.gcIntervalMs === 0 &&
    (desired.dataType === NFT_DATA_VERDICT || has.dataLength === desired.dataLength)
  );
}

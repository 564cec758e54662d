/**
 * Chains and sets that a table of nf_tables has in addition to its layout, while frontends need
 * them. Each is named after its content, is made in one transaction and never changed, and is
 * shared by all frontends that need the same content. When none needs it, a later transaction
 * deletes it.
 */
import type { ReplyOf, TableName } from '../../kernel/kernel.ts';
import type { ChainDefinition } from '../../kernel/nft/chain.ts';
import type { PackedElements } from '../../kernel/nft/element-buffer.ts';
import type { SetDefinition } from '../../kernel/nft/sets.ts';
import type { NftOp } from '../../kernel/ops.ts';

export interface NamedSet {
  readonly definition: SetDefinition;
  /** All that it holds; undefined: packets fill it. */
  readonly elements: PackedElements | undefined;
}

export type NamedObject = ChainDefinition | NamedSet;

export function isNamedSet(object: NamedObject): object is NamedSet {
  return 'definition' in object;
}

function nameOf(object: NamedObject): string {
  return isNamedSet(object) ? object.definition.name : object.name;
}

/** Identifies a set among the chains and sets of one table. Its name identifies a chain. */
export function setId(name: string): string {
  return `set ${name}`;
}

export function idOf(object: NamedObject): string {
  return isNamedSet(object) ? setId(nameOf(object)) : object.name;
}

/** Identifies what is neither a chain nor a set: a counter, a flowtable, … None of them is ours. */
export function otherId({ type, object }: ReplyOf<'object'>): string {
  return `object ${type} ${object}`;
}

/** See `SharedObject.laterRank`: chains refer to sets, and their rules to others. */
export const laterRanks = { chain: 0, set: 1, other: 2 } as const;

export function rankOf(object: NamedObject): number {
  return isNamedSet(object) ? laterRanks.set : laterRanks.chain;
}

/** The ops that delete chains, sets and others by their ids. */
type Deletion = Extract<
  NftOp,
  { kind: 'chainFlush' | 'chainDelete' | 'setDelete' | 'objectDelete' }
>;

/** Rules first, because they refer to chains and sets. Then chains, sets, and others. */
export function deletions(at: TableName, ids: readonly string[]): Deletion[] {
  const inTable = { family: at.family, table: at.table };
  const chains: string[] = [];
  const sets: Deletion[] = [];
  const others: Deletion[] = [];
  for (const id of ids) {
    const [, sort, rest] = /^(set|object) (.*)$/.exec(id) ?? [];
    if (sort === undefined) chains.push(id);
    else if (sort === 'set') sets.push({ kind: 'setDelete', ...inTable, set: rest! });
    else {
      const [, type, object] = /^(\d+) (.*)$/.exec(rest!)!;
      others.push({ kind: 'objectDelete', ...inTable, type: Number(type), object: object! });
    }
  }
  return [
    ...chains.map((chain) => ({ kind: 'chainFlush' as const, ...inTable, chain })),
    ...chains.map((chain) => ({ kind: 'chainDelete' as const, ...inTable, chain })),
    ...sets,
    ...others,
  ];
}

export type Fault = 'missing' | 'wrong';

/**
 * Chains and sets that a table of nf_tables holds beside those of its layout, as long as some
 * frontend needs them. The name of one says all that it holds: it is made whole in one transaction,
 * shared by all who need the same, and never changed. When nobody needs it any more, a later
 * transaction deletes it.
 */

import type { TableName } from '../kernel/kernel.ts';
import { type ChainDefinition, isFilledAsWanted, isHookedAsWanted } from '../kernel/nft/chain.ts';
import { NFT_CHAIN_BINDING, NFT_SET } from '../kernel/nft/constants.ts';
import type { PackedElements } from '../kernel/nft/lane.ts';
import { fieldsOfSet, isSetAsWanted, type SetDefinition } from '../kernel/nft/sets.ts';
import type { NftOp, Reply } from '../kernel/ops.ts';
import type { Family } from '../net/address.ts';
import { Counter } from './counter.ts';
import type { Drift, Pause } from './mode.ts';
import { UndoMap } from './undo-map.ts';

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

function idOf(object: NamedObject): string {
  return isNamedSet(object) ? setId(nameOf(object)) : object.name;
}

/** Identifies what is neither a chain nor a set: a counter, a flowtable, … None of them is ours. */
function otherId({ type, object }: Extract<Reply, { kind: 'object' }>): string {
  return `object ${type} ${object}`;
}

/** What is deleted first has less: chains, then sets, then others. */
function rankOf(id: string): number {
  if (id.startsWith('object ')) return 2;
  return id.startsWith('set ') ? 1 : 0;
}

/** The ops that delete chains, sets and others by their ids. */
export type Deletion = Extract<
  NftOp,
  { kind: 'chainFlush' | 'chainDelete' | 'setDelete' | 'objectDelete' }
>;

/** Rules first: they refer to all else, and chains to each other. Then sets, which name others. */
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

/** What was read of a table. */
export interface FoundTable {
  readonly family: Family;
  readonly sets: ReadonlyMap<string, Extract<Reply, { kind: 'set' }>>;
  readonly chains: ReadonlyMap<string, Extract<Reply, { kind: 'chain' }>>;
  /** Expressions of each chain's rules, in order. */
  readonly rules: ReadonlyMap<string, readonly Uint8Array[]>;
  /** What sets beside those of the layout hold, as `elements` records have it. */
  readonly contents: ReadonlyMap<string, Uint8Array>;
  /** What is neither a table, a chain, a rule nor a set. */
  readonly others: readonly Extract<Reply, { kind: 'object' }>[];
  /** What is wrong with named objects, by id, until they are put right. */
  readonly faults: Map<string, Fault>;
  /** Ids of what batches have written since. */
  readonly touched: Set<string>;
}

/** Writes the object whole. `isThere`: the set may exist, and hold anything. */
type Put = (object: NamedObject, isThere: boolean) => void;

/** A Drift in the making. */
type Counts = { -readonly [K in keyof Drift]: Drift[K] };

/**
 * What an object costs in a batch, in bytes of elements. The kernel walks the names of all sets
 * when it makes one and for each rule that uses it: with 10,000 sets that takes half a millisecond.
 */
const chainCost = 512;
const setCost = 4096;

/** Objects that one transaction deletes: so that others need not wait for it. */
const dueMax = 256;

/** Those of one table: counts who needs each, and what may be deleted. */
export class NamedObjects {
  readonly #wanted = new Counter<NamedObject>();
  /** What nobody needs, by id → whether a call of `due` has seen it. */
  readonly #retired = new UndoMap<boolean>();

  /** Something waits to be deleted. */
  get deferred(): boolean {
    return this.#retired.size > 0;
  }

  /** Returns what making it costs, as so many bytes of elements would. */
  claim(object: NamedObject): number {
    const id = idOf(object);
    const isNew = !this.#wanted.has(id);
    this.#wanted.claim(id, object);
    if (!isNew) return 0;
    return isNamedSet(object) ? setCost + (object.elements?.entries.length ?? 0) : chainCost;
  }

  /** A claim to what is in force already. */
  resume(object: NamedObject): void {
    this.#wanted.resume(idOf(object), object);
  }

  release(object: NamedObject): void {
    this.#wanted.release(idOf(object), object);
  }

  /** What was taken so far is in force in the kernel. */
  confirm(): void {
    this.#retired.confirm();
  }

  /** Nobody needs anything, and what was taken since `confirm` never happened. */
  reset(): void {
    this.#retired.rollback();
    this.#wanted.clear();
  }

  /** The table is made anew, with nothing in it. */
  startAnew(): void {
    this.#wanted.take();
    for (const [id] of this.#retired.entries()) this.#retired.put(id, undefined);
  }

  /** Writes what has come to be needed. `found`: what a repair is based on that is under way. */
  take(found: FoundTable | undefined, put: Put): void {
    const { needed, unused } = this.#wanted.take();
    for (const [id, object] of needed) {
      // What is there may have been meddled with: nobody repaired what nobody used.
      put(object, this.#revive(id) || found?.sets.has(nameOf(object)) === true);
      found?.touched.add(id);
    }
    for (const [id] of unused) this.#retired.put(id, false);
  }

  /** Of what was already waiting to be deleted at the call before this one, as much as `dueMax`. */
  due(found: FoundTable | undefined): string[] {
    this.confirm();
    const aged = this.#retired.entries().filter(([, isAged]) => isAged);
    // A set that goes is in no rule but those of chains that go, too; what others name likewise.
    const ids = aged.map(([id]) => id).sort((a, b) => rankOf(a) - rankOf(b));
    const due = ids.slice(0, dueMax);
    for (const [id] of this.#retired.entries()) this.#retired.put(id, true);
    // Time passes for the rest even if the kernel refuses to delete what is due.
    this.confirm();
    for (const id of due) {
      this.#retired.put(id, undefined);
      found?.touched.add(id);
    }
    return due;
  }

  /** Whether a repair can keep the table: nothing has a form that can't be changed in place. */
  isUsable(found: FoundTable, table: string): boolean {
    for (const [, { value }] of this.#wanted.entries()) {
      if (!isUsable(found, table, value)) return false;
    }
    return true;
  }

  /**
   * Finds out what is not as wanted: `mend` writes each with the first frontend that needs it, so
   * that a repair of many can be cut into batches.
   */
  async findFaults(found: FoundTable, drift: Counts, pause: Pause): Promise<void> {
    for (const [id, { value }] of this.#wanted.entries()) {
      const rest = pause();
      if (rest !== undefined) await rest;
      if (found.touched.has(id) || this.#wanted.changes(id)) continue;
      this.#revive(id);
      const fault = faultOf(found, value);
      if (fault === undefined) continue;
      found.faults.set(id, fault);
      drift[fault] += 1;
    }
  }

  /** Writes those of the objects that were found faulty, unless somebody has done so since. */
  mend({ faults, touched }: FoundTable, objects: readonly NamedObject[], put: Put): void {
    if (faults.size === 0) return;
    for (const object of objects) {
      const id = idOf(object);
      const fault = faults.get(id);
      if (faults.delete(id) && !touched.has(id)) put(object, fault === 'wrong');
    }
  }

  /** Retires what nobody needs, but for ids `ofLayout`. */
  prune(found: FoundTable, ofLayout: ReadonlySet<string>, drift: Counts): void {
    const present = objectsIn(found);
    // What somebody else has deleted would make every later deletion fail.
    for (const [id] of this.#retired.entries()) {
      if (!present.has(id) && !found.touched.has(id)) this.#retired.put(id, undefined);
    }
    for (const id of present) {
      if (ofLayout.has(id) || this.#wanted.has(id) || this.#wanted.changes(id)) continue;
      if (found.touched.has(id) || this.#retired.get(id) !== undefined) continue;
      this.#retired.put(id, false);
      drift.unwanted += 1;
    }
  }

  /** Returns whether it was still to be deleted. */
  #revive(id: string): boolean {
    const isRetired = this.#retired.get(id) !== undefined;
    if (isRetired) this.#retired.put(id, undefined);
    return isRetired;
  }
}

/** Whether the object can be made right. What can't be changed in place must be right. */
export function isUsable(found: FoundTable, table: string, object: NamedObject): boolean {
  if (!isNamedSet(object)) {
    const has = found.chains.get(object.name);
    return has === undefined || isHookedAsWanted(has, object);
  }
  const { definition } = object;
  const has = found.sets.get(definition.name);
  return has === undefined || isSetAsWanted(has, fieldsOfSet(found.family, table, definition));
}

/** How the kernel differs from the object; undefined: not at all. */
export function faultOf(found: FoundTable, object: NamedObject): Fault | undefined {
  if (!isNamedSet(object)) {
    const has = found.chains.get(object.name);
    if (has === undefined) return 'missing';
    return isFilledAsWanted(has, found.rules.get(object.name) ?? [], object) ? undefined : 'wrong';
  }
  const { definition, elements } = object;
  if (!found.sets.has(definition.name)) return 'missing';
  if (elements === undefined) return undefined;
  const held = found.contents.get(definition.name) ?? noBytes;
  return Buffer.compare(held, elements.entries) === 0 ? undefined : 'wrong';
}

const noBytes = new Uint8Array(0);

/** Ids of all that has a name. A set or a chain without one goes with its rule. */
function objectsIn({ chains, others, sets }: FoundTable): Set<string> {
  const ids = new Set(others.map(otherId));
  for (const { set, flags } of sets.values()) {
    if ((flags & NFT_SET.ANONYMOUS) === 0) ids.add(setId(set));
  }
  for (const { chain, flags } of chains.values()) {
    if ((flags & NFT_CHAIN_BINDING) === 0) ids.add(chain);
  }
  return ids;
}

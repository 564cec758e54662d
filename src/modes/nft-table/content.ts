/** What the kernel holds of a table. */

import { isKernelError } from '../../kernel/errors.ts';
import type { ReplyOf } from '../../kernel/kernel.ts';
import { contentOfRule, hasDesiredHook, hasDesiredRules } from '../../kernel/nft/chain.ts';
import { NFT_CHAIN_BINDING, NFT_OBJECT_UNSPEC, NFT_SET } from '../../kernel/nft/constants.ts';
import { dumpShape, fieldsOfSet, isDesiredSet, type SetDefinition } from '../../kernel/nft/sets.ts';
import { ElementShape, type Reply, type Request, unknownIndex } from '../../kernel/ops.ts';
import type { Pause } from '../../time/pacer.ts';
import type { ObservedShared } from '../backend.ts';
import { binary } from '../elements.ts';
import { inTable, type TableLayout } from './layout.ts';
import { type Fault, isNamedSet, laterRanks, type NamedObject, otherId, setId } from './objects.ts';
import { areFlagsUsable } from './ownership.ts';

export type ElementsReply = ReplyOf<'elements'>;

/** Resolves to the records of one consistent state. */
export type Dump = (request: Request) => Promise<readonly Reply[]>;

const noBytes = new Uint8Array(0);
const noElements: ReadonlySet<string> = new Set();

/** Bytes read between two pauses; reading them takes a few microseconds. */
export const bytesPerPause = 1024;

export class TableContent<Name extends string = string> {
  readonly layout: TableLayout<Name>;
  exists = false;
  /** NFT_TABLE_F_* */
  #flags = 0;
  /** A set of the layout has elements that no record can hold. */
  #isStrange = false;
  readonly #sets = new Map<string, ReplyOf<'set'>>();
  readonly #chains = new Map<string, ReplyOf<'chain'>>();
  /** Expressions of each chain's rules, in order. */
  readonly #rules = new Map<string, Uint8Array[]>();
  /** Content of sets of ranges, and of sets outside the layout, as `elements` records have it. */
  readonly #contents = new Map<string, Uint8Array>();
  /** Objects that are neither tables, chains, rules nor sets. None of them is ours. */
  readonly #others: ReplyOf<'object'>[] = [];
  /** Elements of the other sets of the layout: the key of each, as `binary` has it. */
  readonly #elements = new Map<Name, Set<string>>();

  constructor(layout: TableLayout<Name>) {
    this.layout = layout;
  }

  /** Keys of the set's elements; none of a map, or of a set of ranges. */
  elements(set: Name): ReadonlySet<string> {
    return this.#elements.get(set) ?? noElements;
  }

  /** Forgets what was read, because the table is deleted. */
  clear(): void {
    this.exists = false;
    this.#isStrange = false;
    for (const all of [this.#sets, this.#chains, this.#rules, this.#contents, this.#elements]) {
      all.clear();
    }
    this.#others.length = 0;
  }

  /** `readElements` takes the elements of maps, and those that count. */
  async read(
    dump: Dump,
    readElements: (set: Name, record: ElementsReply) => Promise<void> | void,
    pause: Pause,
  ): Promise<void> {
    const ours = inTable(this.layout);
    const requests: Request[] = [
      { kind: 'tablesDump', family: ours.family },
      { kind: 'chainsDump', ...ours },
      { kind: 'rulesDump', ...ours, chain: '' },
      { kind: 'setsDump', ...ours },
      { kind: 'objectsDump', ...ours },
      { kind: 'flowtablesDump', ...ours },
    ];
    for (const request of requests) {
      for (const record of await dump(request)) this.#take(record);
      if (!this.exists) return;
    }
    for (const set of Object.keys(this.layout.sets) as Name[]) {
      const definition = this.layout.sets[set];
      const { keyLength, dataLength } = this.#fieldsOf(definition);
      if (this.#sets.get(set)?.keyLength !== keyLength) continue;
      // What packets write is not compared with anything.
      if ((definition.flags & NFT_SET.EVAL) !== 0) continue;
      const shape = dumpShape(definition);
      const request = { ...ours, set, shape, keyLength, dataLength };
      for (const record of await dump({ kind: 'elementsDump', ...request })) {
        if (record.kind !== 'elements') continue;
        if (record.strange > 0) this.#isStrange = true;
        const isPlain = definition.data === undefined && definition.isCounted !== true;
        if (definition.flags === NFT_SET.INTERVAL) this.#takeContent(set, record);
        else if (isPlain) await this.#takeKeys(set, record, pause);
        else await readElements(set, record);
      }
    }
    for (const has of this.#sets.values()) {
      if (Object.hasOwn(this.layout.sets, has.set)) continue;
      const content = await contentOf(has, dump);
      if (content !== undefined) this.#contents.set(has.set, content);
    }
  }

  #take(record: Reply): void {
    const { family, table } = inTable(this.layout);
    if (!('table' in record) || record.table !== table || record.family !== family) return;
    switch (record.kind) {
      case 'table':
        this.exists = true;
        this.#flags = record.flags;
        return;
      case 'chain':
        this.#chains.set(record.chain, record);
        return;
      case 'rule': {
        const rules = this.#rules.get(record.chain);
        if (rules === undefined) this.#rules.set(record.chain, [contentOfRule(record)]);
        else rules.push(contentOfRule(record));
        return;
      }
      case 'set':
        this.#sets.set(record.set, record);
        return;
      case 'object':
        this.#others.push(record);
        return;
      case 'flowtable': {
        const { flowtable: object } = record;
        this.#others.push({ kind: 'object', family, table, type: NFT_OBJECT_UNSPEC, object });
        return;
      }
      default:
        return;
    }
  }

  #takeContent(set: Name, { entries }: ElementsReply): void {
    const before = this.#contents.get(set);
    this.#contents.set(set, before === undefined ? entries : Buffer.concat([before, entries]));
  }

  async #takeKeys(set: Name, record: ElementsReply, pause: Pause): Promise<void> {
    const { entries, keyLength: stride } = record;
    const keys = this.#elements.get(set) ?? new Set();
    this.#elements.set(set, keys);
    for (let at = 0, paused = 0; at < entries.length; at += stride) {
      keys.add(binary(entries.subarray(at, at + stride)));
      if (at - paused < bytesPerPause) continue;
      paused = at;
      const rest = pause();
      if (rest !== undefined) await rest;
    }
  }

  /** Whether the table can be kept: what can't be changed in place is as the layout wants it. */
  get isIntact(): boolean {
    const definitions = Object.values<SetDefinition>(this.layout.sets);
    return (
      this.exists &&
      !this.#isStrange &&
      areFlagsUsable(this.#flags) &&
      definitions.every(
        (one) => (this.#sets.has(one.name) || canBeAdded(one)) && this.#isDesiredSet(one),
      )
    );
  }

  /** Sets of the layout that there are not, and that can be made in the table as it is. */
  get missingSets(): readonly SetDefinition[] {
    const definitions = Object.values<SetDefinition>(this.layout.sets);
    return definitions.filter((one) => canBeAdded(one) && !this.#sets.has(one.name));
  }

  #fieldsOf(definition: SetDefinition) {
    return fieldsOfSet(this.layout.family, this.layout.table, definition);
  }

  #isDesiredSet(definition: SetDefinition): boolean {
    const has = this.#sets.get(definition.name);
    return has === undefined || isDesiredSet(has, this.#fieldsOf(definition));
  }

  /** Whether the object can be made right. What can't be changed in place must be right. */
  isUsable(object: NamedObject): boolean {
    if (isNamedSet(object)) return this.#isDesiredSet(object.definition);
    const has = this.#chains.get(object.name);
    return has === undefined || hasDesiredHook(has, object);
  }

  /** How the kernel differs from the object; undefined: not at all. */
  faultOf(object: NamedObject): Fault | undefined {
    if (!isNamedSet(object)) {
      const has = this.#chains.get(object.name);
      if (has === undefined) return 'missing';
      const rules = this.#rules.get(object.name) ?? [];
      return hasDesiredRules(has, rules, object) ? undefined : 'wrong';
    }
    const { definition, elements } = object;
    const isOfLayout = definition.name in this.layout.sets;
    if (!isOfLayout && !this.#sets.has(definition.name)) return 'missing';
    if (elements === undefined) return undefined;
    const existing = this.#contents.get(definition.name) ?? noBytes;
    if (Buffer.compare(existing, elements.entries) === 0) return undefined;
    return isOfLayout && existing.length === 0 ? 'missing' : 'wrong';
  }

  get isHooked(): boolean {
    return [...this.#chains.values()].some(({ hook }) => hook !== unknownIndex);
  }

  /** Yields all named objects, except the sets of the layout. */
  *namedObjects(): Generator<ObservedShared> {
    for (const other of this.#others) yield { id: otherId(other), laterRank: laterRanks.other };
    // Deleting a rule deletes its anonymous sets and chains.
    for (const { set, flags } of this.#sets.values()) {
      const isOfLayout = Object.hasOwn(this.layout.sets, set);
      if (isOfLayout || (flags & NFT_SET.ANONYMOUS) !== 0) continue;
      yield { id: setId(set), laterRank: laterRanks.set };
    }
    for (const { chain, flags, hook } of this.#chains.values()) {
      if ((flags & NFT_CHAIN_BINDING) !== 0) continue;
      // No packet comes to a base chain from another chain.
      const isHook = hook !== unknownIndex;
      yield { id: chain, laterRank: isHook ? undefined : laterRanks.chain };
    }
  }
}

/** Whether the set comes and goes with a setting; without any other, the table is not ours. */
function canBeAdded({ isCounted = false }: SetDefinition): boolean {
  return isCounted;
}

/**
 * Returns the content of a set of ranges, as `elements` records have it. Returns undefined if the
 * set is of another kind, has elements that we never write, or was deleted during the dump.
 */
async function contentOf(
  { family, flags, keyLength, set, table }: ReplyOf<'set'>,
  dump: (request: Request) => Promise<readonly Reply[]>,
): Promise<Uint8Array | undefined> {
  if (flags !== NFT_SET.INTERVAL) return undefined;
  const request = { family, table, set, shape: ElementShape.flags, keyLength, dataLength: 0 };
  try {
    const records = await dump({ kind: 'elementsDump', ...request });
    const found = records.flatMap((one) => (one.kind === 'elements' ? [one] : []));
    if (found.some(({ strange }) => strange > 0)) return undefined;
    return Buffer.concat(found.map(({ entries }) => entries));
  } catch (error) {
    if (isKernelError(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** What the kernel holds of our table of one family. */
import type { Kernel } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { entryShape, fieldsOfSet } from '../../kernel/nft/sets.ts';
import { ElementShape, type Reply, type Request } from '../../kernel/ops.ts';
import { addressBytes, type Family } from '../../state/address.ts';
import type { Interval } from '../../state/interval.ts';
import { binary, elementId, rangeId } from '../elements.ts';
import type { Pause } from '../mode.ts';
import { type SetDefinitions, type SetName, setNames, tableName } from './layout.ts';

type ElementsReply = Extract<Reply, { kind: 'elements' }>;
export type SetReply = Extract<Reply, { kind: 'set' }>;
export type ChainReply = Extract<Reply, { kind: 'chain' }>;

/** An element: its key, and the end of its range or its flags, as in `elements` records. */
export interface ObservedElement {
  readonly key: Uint8Array;
  readonly extra: Uint8Array;
}

interface ObservedClients {
  readonly key: Uint8Array;
  readonly ranges: Map<string, Interval>;
}

export class TableObservation {
  readonly family: Family;
  exists = false;
  /** NFT_TABLE_F_* */
  flags = 0;
  readonly sets = new Map<string, SetReply>();
  readonly chains = new Map<string, ChainReply>();
  /** Expressions of each chain's rules, in order. */
  readonly rules = new Map<string, Uint8Array[]>();
  /** What `source-ranges` holds, by frontend. */
  readonly clients = new Map<string, ObservedClients>();
  readonly #elements = new Map<SetName, Map<string, ObservedElement>>();

  constructor(family: Family) {
    this.family = family;
  }

  /** By `elementId`. */
  elements(set: SetName): ReadonlyMap<string, ObservedElement> {
    return this.#elements.get(set) ?? none;
  }

  /** Whether the set has an element that is a key alone. */
  has(set: SetName, key: Uint8Array): boolean {
    return this.elements(set).has(binary(key));
  }

  /** Ranges in `source-ranges`, by `rangeId`. */
  clientsOf(frontend: Uint8Array): ReadonlyMap<string, Interval> {
    return this.clients.get(binary(frontend))?.ranges ?? noRanges;
  }

  /** Forgets all: the table is written anew. */
  clear(): void {
    this.exists = false;
    this.sets.clear();
    this.chains.clear();
    this.rules.clear();
    this.clients.clear();
    this.#elements.clear();
  }

  /** Returns whether what was read is one consistent state. */
  async read(kernel: Kernel, sets: SetDefinitions, pause: Pause): Promise<boolean> {
    const family = NFPROTO[this.family];
    const ours = { family, table: tableName };
    const requests: Request[] = [
      { kind: 'tablesDump', family },
      { kind: 'chainsDump', ...ours },
      { kind: 'rulesDump', ...ours, chain: '' },
      { kind: 'setsDump', ...ours },
    ];
    for (const request of requests) {
      const { records, consistent } = await kernel.dump(request);
      if (!consistent) return false;
      for (const record of records) this.#take(record);
      if (!this.exists) return true;
    }
    for (const name of setNames) {
      const wanted = fieldsOfSet(this.family, tableName, sets[name]);
      const { keyLength, dataLength } = wanted;
      if (this.sets.get(name)?.keyLength !== keyLength) continue;
      const shape = entryShape(sets[name]);
      const request = { ...ours, set: name, shape, keyLength, dataLength };
      const { records, consistent } = await kernel.dump({ kind: 'elementsDump', ...request });
      if (!consistent) return false;
      for (const record of records) {
        if (record.kind === 'elements') await this.#takeElements(name, record, pause);
      }
    }
    return true;
  }

  #take(record: Reply): void {
    if (!('table' in record) || record.table !== tableName) return;
    if (record.family !== NFPROTO[this.family]) return;
    switch (record.kind) {
      case 'table':
        this.exists = true;
        this.flags = record.flags;
        return;
      case 'chain':
        this.chains.set(record.chain, record);
        return;
      case 'rule': {
        const rules = this.rules.get(record.chain);
        if (rules === undefined) this.rules.set(record.chain, [record.expressions]);
        else rules.push(record.expressions);
        return;
      }
      case 'set':
        this.sets.set(record.set, record);
        return;
      default:
        return;
    }
  }

  async #takeElements(
    name: SetName,
    { entries, keyLength, shape, count }: ElementsReply,
    pause: Pause,
  ): Promise<void> {
    let found = this.#elements.get(name);
    if (found === undefined) {
      found = new Map();
      this.#elements.set(name, found);
    }
    const isRange = (shape & ElementShape.keyEnd) !== 0;
    const extraLength = isRange ? keyLength : (shape & ElementShape.flags) !== 0 ? 4 : 0;
    const stride = keyLength + extraLength;
    for (let at = 0; at < count * stride; at += stride) {
      await pause();
      const key = entries.subarray(at, at + keyLength);
      const extra = entries.subarray(at + keyLength, at + stride);
      if (isRange) this.#takeClients(key, extra);
      else found.set(elementId(key, extra), { key, extra });
    }
  }

  #takeClients(first: Uint8Array, last: Uint8Array): void {
    const length = first.length - addressBytes[this.family];
    const key = first.subarray(0, length);
    let known = this.clients.get(binary(key));
    if (known === undefined) {
      known = { key, ranges: new Map() };
      this.clients.set(binary(key), known);
    }
    const range = { first: first.subarray(length), last: last.subarray(length) };
    known.ranges.set(rangeId(range), range);
  }
}

const none: ReadonlyMap<string, ObservedElement> = new Map();
const noRanges: ReadonlyMap<string, Interval> = new Map();

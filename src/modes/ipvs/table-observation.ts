/** What the kernel holds of our table of one family. */
import type { Kernel } from '../../kernel/kernel.ts';
import { contentOfRule } from '../../kernel/nft/chain.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { printVerdict } from '../../kernel/nft/print-rule.ts';
import { entryShape, fieldsOfSet } from '../../kernel/nft/sets.ts';
import { ElementShape, type Reply, type Request } from '../../kernel/ops.ts';
import type { Family } from '../../net/address.ts';
import { binary, elementId } from '../elements.ts';
import type { Pause } from '../mode.ts';
import type { Fault, FoundTable } from '../named-objects.ts';
import { contentOf } from '../set-content.ts';
import { type SetDefinitions, type SetName, setNames, tableName } from './layout.ts';

type ElementsReply = Extract<Reply, { kind: 'elements' }>;
export type SetReply = Extract<Reply, { kind: 'set' }>;
export type ChainReply = Extract<Reply, { kind: 'chain' }>;
type ObjectReply = Extract<Reply, { kind: 'object' }>;

/** An element: its key, and the end of its range or its flags, as in `elements` records. */
export interface ObservedElement {
  readonly key: Uint8Array;
  readonly extra: Uint8Array;
}

/** An element of a verdict map. */
interface ObservedVerdict {
  readonly key: Uint8Array;
  /** In nft's words. */
  readonly verdict: string;
}

export class TableObservation implements FoundTable {
  readonly family: Family;
  exists = false;
  /** NFT_TABLE_F_* */
  flags = 0;
  /** A set of the layout has elements that no record can hold. */
  strange = false;
  readonly sets = new Map<string, SetReply>();
  readonly chains = new Map<string, ChainReply>();
  /** Expressions of each chain's rules, in order. */
  readonly rules = new Map<string, Uint8Array[]>();
  readonly contents = new Map<string, Uint8Array>();
  readonly others: ObjectReply[] = [];
  readonly faults = new Map<string, Fault>();
  readonly touched: Set<string>;
  /** What `firewall-ips` holds, by frontend. */
  readonly firewalls = new Map<string, ObservedVerdict>();
  readonly #elements = new Map<SetName, Map<string, ObservedElement>>();

  constructor(family: Family, touched: Set<string>) {
    this.family = family;
    this.touched = touched;
  }

  /** By `elementId`. */
  elements(set: SetName): ReadonlyMap<string, ObservedElement> {
    return this.#elements.get(set) ?? none;
  }

  /** Whether the set has an element that is a key alone. */
  has(set: SetName, key: Uint8Array): boolean {
    return this.elements(set).has(binary(key));
  }

  /** Forgets all: the table is written anew. */
  clear(): void {
    this.exists = false;
    this.strange = false;
    this.sets.clear();
    this.chains.clear();
    this.rules.clear();
    this.contents.clear();
    this.others.length = 0;
    this.faults.clear();
    this.firewalls.clear();
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
      { kind: 'objectsDump', ...ours },
      { kind: 'flowtablesDump', ...ours },
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
        if (record.kind !== 'elements') continue;
        if (record.strange > 0) this.strange = true;
        if (name === 'firewall-ips') this.#takeVerdicts(record);
        else await this.#takeElements(name, record, pause);
      }
    }
    return this.#readContents(kernel, sets);
  }

  async #readContents(kernel: Kernel, sets: SetDefinitions): Promise<boolean> {
    for (const has of this.sets.values()) {
      if (Object.hasOwn(sets, has.set)) continue;
      let isConsistent = true;
      const content = await contentOf(has, async (request) => {
        const { records, consistent } = await kernel.dump(request);
        isConsistent = consistent;
        return records;
      });
      if (!isConsistent) return false;
      if (content !== undefined) this.contents.set(has.set, content);
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
        if (rules === undefined) this.rules.set(record.chain, [contentOfRule(record)]);
        else rules.push(contentOfRule(record));
        return;
      }
      case 'set':
        this.sets.set(record.set, record);
        return;
      case 'object':
        this.others.push(record);
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
    const extraLength = (shape & ElementShape.flags) !== 0 ? 4 : 0;
    const stride = keyLength + extraLength;
    for (let at = 0; at < count * stride; at += stride) {
      await pause();
      const key = entries.subarray(at, at + keyLength);
      const extra = entries.subarray(at + keyLength, at + stride);
      found.set(elementId(key, extra), { key, extra });
    }
  }

  #takeVerdicts({ entries, keyLength }: ElementsReply): void {
    const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
    let at = 0;
    while (at < entries.length) {
      const key = entries.subarray(at, at + keyLength);
      at += keyLength;
      const length = view.getUint32(at + 4, true);
      const chain = binary(entries.subarray(at + 8, at + 8 + length));
      this.firewalls.set(binary(key), {
        key,
        verdict: printVerdict(view.getInt32(at, true), chain),
      });
      at += 8 + ((length + 3) & ~3);
    }
  }
}

const none: ReadonlyMap<string, ObservedElement> = new Map();

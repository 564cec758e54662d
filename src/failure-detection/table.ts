/** The table of one family in the kernel: it is made, changed, compared, read and removed here. */
import { failureOf, refusal } from '../kernel/failures.ts';
import type { Kernel, ReplyOf, TableName } from '../kernel/kernel.ts';
import {
  acceptPolicy,
  contentOfRule,
  hasDesiredHook,
  hasDesiredRules,
} from '../kernel/nft/chain.ts';
import { makerOf, type OwnTable, removeTable, tableText } from '../kernel/nft/own-table.ts';
import { compileRule } from '../kernel/nft/rule.ts';
import { dumpShape, fieldsOfSet, isDesiredSet } from '../kernel/nft/sets.ts';
import { nftOps, type Reply, type Request } from '../kernel/ops.ts';
import { RecordWriter } from '../kernel/records.ts';
import { binary, bytesOf } from '../modes/elements.ts';
import type { Family } from '../net/address.ts';
import type { Pause } from '../time/pacer.ts';
import { type Counted, chainsOf, counts, ownTable, setsOf, tableName } from './layout.ts';

/** The number of elements that are read in one step. */
const elementsAStep = 256;

type Writer = RecordWriter<typeof nftOps>;

/** What the kernel has counted of one endpoint. */
export type Counts = Readonly<Record<Counted, number>>;

export class CountingTable {
  readonly family: Family;
  readonly #kernel: Kernel;
  readonly #own: OwnTable;
  readonly #inTable: TableName;
  /** Keys of the elements, as `binary` has them; undefined: it is not known what is there. */
  #keys: ReadonlySet<string> | undefined;
  #isDoubted = false;

  constructor(kernel: Kernel, family: Family) {
    this.family = family;
    this.#kernel = kernel;
    this.#own = ownTable(family);
    this.#inTable = { family: this.#own.family, table: tableName };
  }

  /** It was made, and not removed. */
  get isMade(): boolean {
    return this.#keys !== undefined;
  }

  /** Another program may have changed it: it is compared before it is used again. */
  doubt(): void {
    this.#isDoubted = true;
  }

  /**
   * Puts these keys into the sets. Resolves to `made` where the table was replaced: its elements
   * count from zero. Rejects with KernelError; then the next call replaces it.
   */
  async follow(keys: ReadonlySet<string>): Promise<'kept' | 'made'> {
    const isKept = this.#keys !== undefined && !(this.#isDoubted && !(await this.#isIntact()));
    this.#isDoubted = false;
    const held = isKept ? this.#keys! : new Set<string>();
    const writer = new RecordWriter(nftOps);
    if (!isKept) await this.#create(writer);
    const gone = without(held, keys);
    const added = without(keys, held);
    for (const count of counts) {
      this.#elements(writer, 'elementsDelete', count, gone);
      this.#elements(writer, 'elementsAdd', count, added);
    }
    // Rules last: they refer to the sets.
    if (!isKept) this.#rules(writer);
    if (writer.count > 0) await this.#apply(writer);
    this.#keys = new Set(keys);
    return isKept ? 'kept' : 'made';
  }

  /** What was counted, by key. Elements that the kernel left out of an answer are missing. */
  async read(pause: Pause): Promise<ReadonlyMap<string, Counts>> {
    const found = new Map<string, Record<Counted, number>>();
    for (const count of counts) {
      const definition = setsOf(this.family)[count];
      const { keyLength } = fieldsOfSet(this.family, tableName, definition);
      const shape = dumpShape(definition);
      const request = { ...this.#inTable, set: count, shape, keyLength, dataLength: 0 };
      const { records } = await this.#kernel.dump({ kind: 'elementsDump', ...request });
      for (const record of records) {
        if (record.kind !== 'elements') continue;
        const { entries } = record;
        const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
        for (let at = 0, done = 0; at < entries.length; at += keyLength + 8, done += 1) {
          if (done % elementsAStep === 0) await pause();
          const key = binary(entries.subarray(at, at + keyLength));
          let counted = found.get(key);
          if (counted === undefined) {
            counted = { attempts: 0, resets: 0, answers: 0 };
            found.set(key, counted);
          }
          counted[count] = Number(view.getBigUint64(at + keyLength, true));
        }
      }
    }
    return found;
  }

  /** Resolves to whether there was one that we made. */
  async remove(): Promise<boolean> {
    this.#keys = undefined;
    return removeTable(this.#kernel, this.#own);
  }

  async #create(writer: Writer): Promise<void> {
    const maker = await makerOf(this.#kernel, this.#own);
    if (maker === 'foreign') throw new ForeignTable(tableText(this.#own));
    if (maker === 'ours') writer.write('tableDelete', this.#own);
    writer.write('tableAdd', this.#own);
    for (const set of Object.values(setsOf(this.family))) {
      writer.write('setAdd', fieldsOfSet(this.family, tableName, set));
    }
    const comment = '';
    for (const { base, name: chain } of chainsOf(this.family)) {
      const named = { ...this.#inTable, chain, comment };
      if (base === undefined) writer.write('chainAdd', named);
      else writer.write('baseChainAdd', { ...named, ...base, policy: acceptPolicy });
    }
  }

  #rules(writer: Writer): void {
    for (const { name: chain, rules } of chainsOf(this.family)) {
      for (const rule of rules) {
        const expressions = compileRule(rule);
        writer.write('ruleAdd', { ...this.#inTable, chain, expressions, comment: '' });
      }
    }
  }

  #elements(
    writer: Writer,
    kind: 'elementsAdd' | 'elementsDelete',
    set: Counted,
    keys: readonly string[],
  ): void {
    if (keys.length === 0) return;
    const { keyLength } = fieldsOfSet(this.family, tableName, setsOf(this.family)[set]);
    const entries = Buffer.concat(keys.map(bytesOf));
    const shape = { shape: 0, keyLength, dataLength: 0 };
    writer.write(kind, { ...this.#inTable, set, ...shape, count: keys.length, entries });
  }

  async #apply(writer: Writer): Promise<void> {
    const failure = await failureOf(this.#kernel, writer.finish());
    if (failure === undefined) return;
    this.#keys = undefined;
    throw refusal('nft.apply', `table ${tableText(this.#own)}`, failure);
  }

  /** Compares all but the elements. */
  async #isIntact(): Promise<boolean> {
    if ((await makerOf(this.#kernel, this.#own)) !== 'ours') return false;
    const chains = await this.#read('chain', { kind: 'chainsDump', ...this.#inTable });
    const rules = await this.#read('rule', { kind: 'rulesDump', ...this.#inTable, chain: '' });
    const sets = await this.#read('set', { kind: 'setsDump', ...this.#inTable });
    const desired = chainsOf(this.family);
    const desiredSets = Object.values(setsOf(this.family));
    return (
      chains.length === desired.length &&
      sets.length === desiredSets.length &&
      desired.every((chain) => {
        const has = chains.find((one) => one.chain === chain.name);
        const own = rules.filter((one) => one.chain === chain.name).map(contentOfRule);
        return has !== undefined && hasDesiredHook(has, chain) && hasDesiredRules(has, own, chain);
      }) &&
      desiredSets.every((one) => {
        const has = sets.find(({ set }) => set === one.name);
        const fields = fieldsOfSet(this.family, tableName, one);
        return has !== undefined && isDesiredSet(has, fields);
      })
    );
  }

  async #read<Kind extends Reply['kind']>(kind: Kind, request: Request): Promise<ReplyOf<Kind>[]> {
    const { records } = await this.#kernel.dump(request);
    return records.filter(
      (one): one is ReplyOf<Kind> =>
        one.kind === kind && (!('table' in one) || one.table === tableName),
    );
  }
}

/** Another program made a table of this name. */
class ForeignTable extends Error {
  constructor(table: string) {
    super(`another program made table ${table}`);
  }
}

function without(all: ReadonlySet<string>, others: ReadonlySet<string>): string[] {
  return [...all].filter((one) => !others.has(one));
}

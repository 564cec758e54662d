/** The table of one family in the kernel: it is made, changed, compared, read and removed here. */
import { failureOf, refusal } from '../kernel/failures.ts';
import type { Kernel } from '../kernel/kernel.ts';
import {
  bringKeys,
  hasContent,
  makerOf,
  type OwnContent,
  removeTable,
  tableText,
  writeTable,
  writeTableRules,
} from '../kernel/nft/own-table.ts';
import { dumpShape, fieldsOfSet } from '../kernel/nft/sets.ts';
import { nftOps } from '../kernel/ops.ts';
import { RecordWriter } from '../kernel/records.ts';
import { untilSteady } from '../kernel/steady.ts';
import { binary } from '../modes/elements.ts';
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
  readonly #content: OwnContent;
  /** Keys of the elements, as `binary` has them; undefined: it is not known what is there. */
  #keys: ReadonlySet<string> | undefined;
  #isDoubted = false;

  constructor(kernel: Kernel, family: Family) {
    this.family = family;
    this.#kernel = kernel;
    const sets = Object.values(setsOf(family)).map((set) => fieldsOfSet(family, tableName, set));
    this.#content = { own: ownTable(family), chains: chainsOf(family), sets };
  }

  /** It was made, and not removed. */
  get isMade(): boolean {
    return this.#keys !== undefined;
  }

  /** Another program may have changed it: the next `follow` compares it. */
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
    if (!isKept) this.#keys = undefined;
    const writer = new RecordWriter(nftOps);
    if (!isKept) await this.#create(writer);
    for (const fields of this.#content.sets) bringKeys(writer, fields, held, keys);
    if (!isKept) writeTableRules(writer, this.#content);
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
      const { family, table } = this.#content.own;
      const request = { family, table, set: count, shape, keyLength, dataLength: 0 };
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
    return removeTable(this.#kernel, this.#content.own);
  }

  async #create(writer: Writer): Promise<void> {
    const maker = await makerOf(this.#kernel, this.#content.own);
    if (maker === 'foreign') throw new ForeignTable(tableText(this.#content.own));
    writeTable(writer, this.#content, maker === 'ours');
  }

  async #apply(writer: Writer): Promise<void> {
    const failure = await failureOf(this.#kernel, writer.finish());
    if (failure === undefined) return;
    this.#keys = undefined;
    throw refusal('nft.apply', `table ${tableText(this.#content.own)}`, failure);
  }

  /** Compares all but the elements. */
  async #isIntact(): Promise<boolean> {
    if ((await makerOf(this.#kernel, this.#content.own)) !== 'ours') return false;
    return untilSteady(() => hasContent(this.#kernel, this.#content));
  }
}

/** Another program made a table of this name. */
class ForeignTable extends Error {
  constructor(table: string) {
    super(`another program made table ${table}`);
  }
}

/** Reads what the kernel has counted of endpoints. */
import type { KernelReader } from '../kernel/kernel.ts';
import { concatBytes } from '../kernel/nft/constants.ts';
import { dumpShape } from '../kernel/nft/sets.ts';
import { binary } from '../modes/elements.ts';
import type { Family } from '../net/address.ts';
import type { Pause } from '../time/pacer.ts';
import { type Counted, counts, ownTable, setsOf } from './layout.ts';

/** What the kernel has counted of one endpoint. */
export type Counts = Readonly<Record<Counted, number>>;

/** The number of elements that are read in one step. */
const elementsAStep = 256;

/** By key, as `binary` has it. Elements that the kernel left out of an answer are missing. */
export async function readCounts(
  kernel: KernelReader,
  of: Family,
  pause: Pause,
): Promise<ReadonlyMap<string, Counts>> {
  const found = new Map<string, Record<Counted, number>>();
  const { family, table } = ownTable(of);
  for (const count of counts) {
    const definition = setsOf(of)[count];
    const keyLength = concatBytes(definition.key);
    const shape = { shape: dumpShape(definition), keyLength, dataLength: 0 };
    const request = { kind: 'elementsDump', family, table, set: count, ...shape } as const;
    const { records } = await kernel.dump(request);
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

/**
 * Tables with our names that we have not made. Ours replace them, because a node without Services
 * is worse; that is reported.
 */
import { KernelError } from '../kernel/errors.ts';
import type { KernelReader } from '../kernel/kernel.ts';
import { NFPROTO } from '../kernel/nft/constants.ts';
import { familyWord } from '../kernel/nft/words.ts';
import { availableModes } from '../modes/index.ts';
import type { ModeFacts } from '../modes/mode.ts';
import { families } from '../net/address.ts';

export interface ForeignTable {
  /** In nft's words: `ip fairlead`. */
  readonly table: string;
  /** Names of its chains, and of its sets and maps. */
  readonly objects: readonly string[];
}

/**
 * Changes nothing. Leaves out empty tables. Finds none if the kernel can't be read, which
 * other parts report.
 */
export async function findForeignTables(
  kernel: KernelReader,
  modes: readonly ModeFacts[] = availableModes(),
): Promise<readonly ForeignTable[]> {
  /** The comment that each table of ours has, by the table's name. */
  const ours: Comments = new Map(
    modes.flatMap(({ table }) => (table ? [[table.name, table.comment]] : [])),
  );
  const found: ForeignTable[] = [];
  for (const family of families.map((one) => NFPROTO[one])) {
    try {
      for (const name of await tablesOfOthers(kernel, family, ours)) {
        const objects = await objectsIn(kernel, family, name);
        if (objects.length > 0) found.push({ table: `${familyWord(family)} ${name}`, objects });
      }
    } catch (error) {
      if (!(error instanceof KernelError)) throw error;
    }
  }
  return found;
}

type Comments = ReadonlyMap<string, string>;

async function tablesOfOthers(
  kernel: KernelReader,
  family: number,
  ours: Comments,
): Promise<string[]> {
  const { records } = await kernel.dump({ kind: 'tablesDump', family });
  return records.flatMap((one) => {
    const comment = one.kind === 'table' ? ours.get(one.table) : undefined;
    return one.kind === 'table' && comment !== undefined && comment !== one.comment
      ? [one.table]
      : [];
  });
}

async function objectsIn(kernel: KernelReader, family: number, table: string): Promise<string[]> {
  const chains = await kernel.dump({ kind: 'chainsDump', family, table });
  const sets = await kernel.dump({ kind: 'setsDump', family, table });
  return [...chains.records, ...sets.records].flatMap((one) => {
    if (one.kind !== 'chain' && one.kind !== 'set') return [];
    if (one.table !== table) return [];
    return one.kind === 'chain' ? `chain ${one.chain}` : `set ${one.set}`;
  });
}

/** What commands list and remove that a Fairlead or kube-proxy has left on a node. */

import { ownTable as limitsTable } from '../connection-limits/layout.ts';
import { ownTable as countingTable } from '../failure-detection/layout.ts';
import { ownTable as fastPathTable } from '../fast-path/layout.ts';
import { isAbsence } from '../kernel/errors.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { makerOf, type OwnTableName, removeTable, tableText } from '../kernel/nft/own-table.ts';
import type { ProxyMode } from '../modes/proxy-mode.ts';
import { families } from '../net/address.ts';
import { hasSign, removeSign, signText } from '../takeover/sign.ts';
import { type ExitCode, exitCodes } from './errors.ts';

/** Takes a line without newline. */
export type Print = (line: string) => void;

/** One kind of what may be left. */
export interface Removal {
  /** Prints what `remove` would remove or leave, each object with the reason. */
  list(print: Print): Promise<void>;
  /** Prints each object that it has removed or left. */
  remove(print: Print): Promise<void>;
}

/** Continues after a failure. Resolves to all, except those of a kernel that lacks such objects. */
export async function attemptAll(
  removals: readonly Removal[],
  how: keyof Removal,
  print: Print,
): Promise<Error[]> {
  const failures: Error[] = [];
  for (const one of removals) {
    await one[how](print).catch((error: Error) => {
      if (!isAbsence(error)) failures.push(error);
    });
  }
  return failures;
}

/** Rejects at the end, with the first failure: then it may not be all. */
export async function listOrRemove(
  removals: readonly Removal[],
  how: keyof Removal,
  print: Print,
): Promise<ExitCode> {
  let count = 0;
  const [failure] = await attemptAll(removals, how, (line) => {
    count += 1;
    print(line);
  });
  if (failure !== undefined) throw failure;
  if (count === 0) print('nothing to remove');
  return exitCodes.healthy;
}

/** What a mode has made. */
export function ofMode(kernel: Kernel, mode: ProxyMode): Removal {
  return {
    list: async (print) => {
      for (const { object, because } of await mode.owned(kernel)) print(`${object}: ${because}`);
    },
    remove: async (print) => {
      const owned = await mode.owned(kernel);
      await mode.cleanup(kernel);
      for (const { object } of owned) print(`removed ${object}`);
    },
  };
}

/** What Fairlead makes in nf_tables in addition to the tables of its modes. */
export function ofFeatures(kernel: Kernel): Removal[] {
  return [
    ofTable(kernel, 'fast path', fastPathTable),
    ofTable(kernel, 'connection limits', limitsTable),
    ...families.map((family) => ofTable(kernel, 'failure detection', countingTable(family))),
    ...families.map((family) =>
      ofFeature('mode nftables', signText(family), {
        isThere: () => hasSign(kernel, family),
        remove: () => removeSign(kernel, family),
      }),
    ),
  ];
}

function ofTable(kernel: Kernel, feature: string, table: OwnTableName): Removal {
  return ofFeature(feature, `table ${tableText(table)}`, {
    isThere: async () => (await makerOf(kernel, table)) === 'ours',
    remove: () => removeTable(kernel, table),
  });
}

/** `object` in nft's words. `remove` resolves to whether there was one that we made. */
function ofFeature(
  feature: string,
  object: string,
  { isThere, remove }: { isThere: () => Promise<boolean>; remove: () => Promise<boolean> },
): Removal {
  return {
    list: async (print) => {
      if (await isThere()) print(`${object}: our ${feature} made it`);
    },
    remove: async (print) => {
      if (await remove()) print(`removed ${object}`);
    },
  };
}

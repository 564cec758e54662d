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
type How = 'list' | 'remove';

/** An object that is or was there. */
export interface Left {
  /** In the words of its tool: `chain ip nat KUBE-MARK-MASQ`. */
  readonly object: string;
  /** How it is recognised, or why it stays. */
  readonly because: string;
  readonly stays?: boolean;
}

/** Lists one kind of what may be left, or removes it. `report` gets also what stays. */
export type Removal = (how: How, report: (left: Left) => void) => Promise<void>;

/** The most removed objects of one kind to name: kube-proxy may have tens of thousands. */
const namedMax = 20;

function lineOf({ because, object, stays }: Left, how: How): string {
  if (how === 'list') return stays ? `(stays: ${object}: ${because})` : `${object}: ${because}`;
  return stays ? `left ${object}: ${because}` : `removed ${object}`;
}

/** Continues after a failure. Resolves to all, except those of a kernel that lacks such objects. */
export async function attemptAll(
  removals: readonly Removal[],
  how: How,
  print: Print,
): Promise<Error[]> {
  const failures: Error[] = [];
  for (const one of removals) {
    let removed = 0;
    const report = (left: Left): void => {
      if (how === 'remove' && !left.stays) removed += 1;
      if (left.stays || removed <= namedMax) print(lineOf(left, how));
    };
    await one(how, report).catch((error: Error) => {
      if (!isAbsence(error)) failures.push(error);
    });
    if (removed > namedMax) print(`removed ${removed - namedMax} more`);
  }
  return failures;
}

/** Rejects at the end, with the first failure: then it may not be all. */
export async function listOrRemove(
  removals: readonly Removal[],
  how: How,
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
  return async (how, report) => {
    const owned = await mode.owned(kernel);
    if (how === 'remove') await mode.cleanup(kernel);
    owned.forEach(report);
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
  return async (how, report) => {
    const isIt = await (how === 'list' ? isThere() : remove());
    if (isIt) report({ object, because: `our ${feature} made it` });
  };
}

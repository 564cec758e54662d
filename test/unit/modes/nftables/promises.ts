/**
 * A packet looks its frontend up, and then an endpoint; a transaction may come in between. So a
 * verdict is a promise that as many endpoints as its chain picks from are there, and it must hold
 * for one transaction after the verdict has gone.
 */
import { NFPROTO } from '../../../../src/kernel/nft/constants.ts';
import { tableName } from '../../../../src/modes/nftables/layout.ts';
import type { FakeKernel } from '../../../fake/kernel.ts';
import { readRule } from '../../../fake/nft-rule.ts';
import { elementId, type Table } from '../../../fake/nft-state.ts';

/** An endpoint that a packet may be about to look up. */
export interface Promised {
  readonly family: number;
  readonly set: string;
  /** `elementId` */
  readonly id: string;
}

/** What packets may be about to look up, and would find. */
export function promises(kernel: FakeKernel): Promised[] {
  return ours(kernel).flatMap((table) =>
    ['services', 'nodeports'].flatMap((map) =>
      [...(table.sets.get(map)?.elements.values() ?? [])].flatMap(({ key, verdict }) =>
        picksOf(table, verdict?.chain ?? '').flatMap(({ set, count }) =>
          Array.from({ length: count }, (_, index) => ({
            family: table.family,
            set,
            id: idOf(key, index),
          })).filter((promised) => isKept(kernel, promised)),
        ),
      ),
    ),
  );
}

export function isKept(kernel: FakeKernel, { family, set, id }: Promised): boolean {
  return kernel.table(family, tableName)?.sets.get(set)?.elements.has(id) ?? false;
}

function ours(kernel: FakeKernel): Table[] {
  const tables = [NFPROTO.IPv4, NFPROTO.IPv6].map((family) => kernel.table(family, tableName));
  return tables.filter((table) => table !== undefined);
}

function idOf(key: Uint8Array, index: number): string {
  const full = new Uint8Array(key.length + 4);
  full.set(key);
  new DataView(full.buffer).setUint32(key.length, index, true);
  return elementId({ key: full, flags: 0 });
}

/** The picks that a packet may come to from a chain. */
function picksOf(table: Table, name: string): { set: string; count: number }[] {
  const picks: { set: string; count: number }[] = [];
  for (const { expressions } of table.chains.get(name)?.rules ?? []) {
    let count = 0;
    for (const expression of readRule(expressions)) {
      if (expression.kind === 'numgen' || expression.kind === 'hash') count = expression.modulus;
      if (expression.kind === 'lookup' && count > 0) picks.push({ set: expression.set, count });
      if (expression.kind === 'immediateVerdict') picks.push(...picksOf(table, expression.chain));
    }
  }
  return picks;
}

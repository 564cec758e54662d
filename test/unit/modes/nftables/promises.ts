/**
 * A packet looks its frontend up, and then draws endpoints until one is there; a transaction may
 * come in between. So what its chain draws last must be there, unless the pool has gone.
 */
import { NFPROTO } from '../../../../src/kernel/nft/constants.ts';
import { tableName } from '../../../../src/modes/nftables/layout.ts';
import type { FakeKernel } from '../../../fake/kernel.ts';
import { readRule } from '../../../fake/nft-rule.ts';
import { elementId, type Table } from '../../../fake/nft-state.ts';

/** What a packet may be about to draw from, among this number of places. */
export interface Promised {
  readonly family: number;
  readonly set: string;
  readonly frontend: Uint8Array;
  readonly places: number;
  readonly lastPlaces: number;
}

/** What packets may be about to draw from, and would find. */
export function promises(kernel: FakeKernel): Promised[] {
  const all = ours(kernel).flatMap((table) =>
    ['services', 'ranges', 'nodeports'].flatMap((map) =>
      [...(table.sets.get(map)?.elements.values() ?? [])].flatMap(({ key, verdict }) =>
        [...drawsOf(table, verdict?.chain ?? '')].map(([set, counts]) => {
          const [places, lastPlaces] = [Math.max(...counts), counts.at(-1)!];
          return { family: table.family, set, frontend: key, places, lastPlaces };
        }),
      ),
    ),
  );
  return all.filter((promised) => isKept(kernel, promised));
}

/** Whether a packet finds an endpoint whatever it draws, or there is none. */
export function isKept(kernel: FakeKernel, promised: Promised): boolean {
  const { family, set, frontend, places, lastPlaces } = promised;
  const elements = kernel.table(family, tableName)?.sets.get(set)?.elements;
  const indexes = Array.from({ length: places }, (_, index) => index);
  const found = indexes.filter((index) => elements?.has(idOf(frontend, index)));
  return found.length === 0 || found.filter((index) => index < lastPlaces).length === lastPlaces;
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

/** Among how many places a packet draws from each set, one after the other. */
function drawsOf(table: Table, name: string, draws = new Map<string, number[]>()) {
  for (const { expressions } of table.chains.get(name)?.rules ?? []) {
    let count = 0;
    for (const expression of readRule(expressions)) {
      if (expression.kind === 'numgen' || expression.kind === 'hash') count = expression.modulus;
      if (expression.kind === 'lookup' && count > 0) {
        draws.set(expression.set, [...(draws.get(expression.set) ?? []), count]);
      }
      if (expression.kind === 'immediateVerdict') drawsOf(table, expression.chain, draws);
    }
  }
  return draws;
}

/**
 * How many elements the maps of the table should hold. They are counted from desired frontends and
 * not from what batches wrote, so that the count shows mistakes of batches.
 */
import type { KernelReader } from '../../kernel/kernel.ts';
import { unknownIndex } from '../../kernel/ops.ts';
import type { Miscount } from '../mode.ts';
import { inTable, type TableLayout } from '../nft-table/layout.ts';
import { elementOf, type FrontendElements, verdictKinds, verdictParts } from './frontends.ts';
import type { SetName } from './layout.ts';

export class ElementCounts {
  readonly #counts = new Map<SetName, { count: number }>();

  /** Counts a frontend. `step` is 1 when it becomes desired, and -1 when it no longer is. */
  frontend(frontend: FrontendElements, step: 1 | -1): void {
    const { endpoints, isCounted, local, maps } = frontend;
    for (const part of verdictParts) {
      if (verdictKinds[part].of(frontend) !== undefined)
        this.#add(elementOf(frontend, part).set, step);
    }
    this.#add(maps.endpoints, step * endpoints.length);
    this.#add(maps.localEndpoints, step * local.length);
    if (isCounted) this.#add(maps.counts, step);
  }

  /** Counts a shared element of the set. */
  shared(set: SetName, step: 1 | -1): void {
    this.#add(set, step);
  }

  clear(): void {
    this.#counts.clear();
  }

  /** The sets for which the kernel has another count; undefined where it does not count. */
  async miscounts(
    kernel: KernelReader,
    layout: Pick<TableLayout, 'family' | 'table'>,
  ): Promise<readonly Miscount[] | undefined> {
    // A change that is planned during the dump counts immediately, before the kernel has it.
    const expected = Array.from(this.#counts, ([set, { count }]) => [set, count] as const);
    const { records, consistent } = await kernel.dump({ kind: 'setsDump', ...inTable(layout) });
    if (!consistent) return undefined;
    const counted = new Map<string, number>();
    for (const record of records) if (record.kind === 'set') counted.set(record.set, record.count);
    if ([...counted.values()].includes(unknownIndex)) return undefined;
    const differing = expected.filter(([set, count]) => (counted.get(set) ?? 0) !== count);
    return differing.map(([set, count]) => ({
      object: `map ${set}`,
      expected: count,
      counted: counted.get(set) ?? 0,
    }));
  }

  #add(set: SetName, count: number): void {
    const known = this.#counts.get(set);
    if (known === undefined) this.#counts.set(set, { count });
    else known.count += count;
  }
}

/** What the kernel holds of our table, grouped by frontend. */
import type { KernelReader } from '../../kernel/kernel.ts';
import { steadyDump, untilSteady } from '../../kernel/steady.ts';
import type { Family } from '../../net/address.ts';
import type { EndpointList } from '../../net/endpoint-list.ts';
import { slotsOf } from '../../state/deal.ts';
import { withHeldOrder } from '../../state/pool.ts';
import type { Forwarding } from '../../state/types.ts';
import type { Pause } from '../../time/pacer.ts';
import type { Found, HeldShared } from '../backend.ts';
import { type Dump, TableContent } from '../nft-table/content.ts';
import type { Fault } from '../nft-table/objects.ts';
import type { TableObject } from '../nft-table/shared.ts';
import { type FrontendElements, locate, partOf } from './frontends.ts';
import { HeldFrontend, type NFTablesObjects } from './held.ts';
import { type SetName, type SharedSet, sharedElements, type tableLayout } from './layout.ts';
import { readElements } from './map-reader.ts';

export class NFTablesObservation implements Found<NFTablesObjects> {
  readonly family: Family;
  readonly table: TableContent<SetName>;
  readonly frontends = new Map<string, HeldFrontend>();

  constructor(layout: ReturnType<typeof tableLayout>) {
    this.family = layout.family;
    this.table = new TableContent(layout);
  }

  get intact(): boolean {
    return this.table.isIntact;
  }

  /** Forgets what was read, because the table is deleted. */
  clear(): void {
    this.table.clear();
    this.frontends.clear();
  }

  adopt(next: Forwarding): Forwarding {
    return withHeldOrder(next, (pool) => this.#orderOf(pool, next));
  }

  /**
   * The pool in the order of the first frontend that holds any of it; unchanged if it is in order.
   */
  #orderOf(pool: 'cluster' | 'local', next: Forwarding): EndpointList {
    const list = slotsOf(next, pool);
    if (list.length < 2) return list;
    for (const frontend of next.frontends) {
      const part = partOf(pool, frontend);
      const found = part && this.frontends.get(locate(next, frontend).id)?.[part];
      if (found === undefined || found.isEmpty) continue;
      return found.isInOrderOf(list) ? list : found.inOrder(this.family);
    }
    return list;
  }

  /** The frontend of this id, made when it is asked for first. */
  frontend(id: string): HeldFrontend {
    let found = this.frontends.get(id);
    if (found === undefined) {
      found = new HeldFrontend(id);
      this.frontends.set(id, found);
    }
    return found;
  }

  take({ id }: FrontendElements): HeldFrontend | undefined {
    const held = this.frontends.get(id);
    if (held !== undefined) held.isTaken = true;
    return held;
  }

  *rest(): Generator<readonly [string, HeldFrontend]> {
    for (const one of this.frontends) if (!one[1].isTaken) yield one;
  }

  faultOf(shared: TableObject<SharedSet>): Fault | undefined {
    if ('object' in shared) return this.table.faultOf(shared.object);
    return this.table.elements(shared.set).has(sharedElements.keyOf(shared))
      ? undefined
      : 'missing';
  }

  get isHooked(): boolean {
    return this.table.isHooked;
  }

  *shared(): Generator<HeldShared> {
    yield* this.table.namedObjects();
    for (const set of sharedElements.sets) {
      for (const key of this.table.elements(set)) yield { id: sharedElements.idOf(set, key) };
    }
  }

  /**
   * Reads set by set. Each set is consistent, but different sets are of different moments. `touched`
   * has the objects that our batches change during the dump. Changes by other programs raise the
   * generation.
   */
  async read(kernel: KernelReader, pause: Pause): Promise<void> {
    const dump: Dump = (request) => untilSteady(() => steadyDump(kernel, request));
    await this.table.read(dump, (set, record) => readElements(this, set, record, pause), pause);
  }
}

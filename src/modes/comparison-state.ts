import type { Forwarding } from '../state/types.ts';
import { inTurns, type Pause } from '../time/pacer.ts';
import {
  type Backend,
  type Counts,
  type EndOfRepair,
  type Found,
  isShared,
  noCounts,
  type RepairPart,
  type Types,
} from './backend.ts';
import type { FrontendChanges } from './changes.ts';
import type { Drift, Environment } from './mode.ts';
import { type NextBatch, writeDeletion } from './next-batch.ts';
import type { Needed, Retirable, SharedObjects } from './shared-objects.ts';

/** What it has of its planner. */
interface Parts<T extends Types> {
  readonly backend: Backend<T>;
  readonly changes: FrontendChanges<T['frontend']>;
  readonly shared: SharedObjects<T['shared']>;
  readonly next: NextBatch<T>;
}

function faultsIn({ missing, wrong, unwanted }: Drift): number {
  return missing + wrong + unwanted;
}

/** A comparison with the kernel, from the beginning of the reading, and the repair that follows. */
export class Comparison<T extends Types> {
  /** Ids of what batches have written since the reading began. */
  readonly touched = new Set<string>();
  /** Drift that claims have found since. */
  readonly uncounted = noCounts();
  /** Fixed objects are repaired. */
  isBegun = false;
  readonly #parts: Parts<T>;
  #found: (T['found'] & Found<T>) | undefined;
  /** Keys of Forwardings that it leaves as they are. */
  readonly #left = new Set<string>();
  /** Ids of shared objects that it has compared. */
  readonly #compared = new Set<string>();
  /** Shared objects that it compares at its end. */
  readonly #madeLast: Needed<T['shared']>[] = [];

  constructor(parts: Parts<T>) {
    this.#parts = parts;
  }

  /** All is read. */
  read(found: T['found'] & Found<T>): void {
    this.#found = found;
  }

  /** Undefined until all is read. */
  get found(): (T['found'] & Found<T>) | undefined {
    return this.#found;
  }

  /** See `KernelState`. */
  leave(forwarding: Forwarding, environment: Environment): boolean {
    const { backend } = this.#parts;
    if (backend.isOptional === true) return false;
    let isThere = false;
    for (const object of backend.objects(forwarding, environment)) {
      if (!isShared<T>(object) && this.#found!.take(object) !== undefined) isThere = true;
    }
    if (isThere) this.#left.add(forwarding.key);
    return isThere;
  }

  /** See `Repair`. */
  compare(desired: Forwarding, environment: Environment): Drift {
    const { backend, next } = this.#parts;
    next.isRepair = true;
    const drift = noCounts();
    const { key: owner } = desired;
    if (this.#left.has(owner)) return drift;
    for (const object of backend.objects(desired, environment)) {
      if (!isShared<T>(object)) this.#repairFrontend(owner, object, drift);
      else if (object.isMadeLast === true) this.#madeLast.push({ owner, object });
      else this.repairShared({ owner, object }, drift);
    }
    return drift;
  }

  #repairFrontend(owner: string, after: T['frontend'], drift: Counts): void {
    const { changes, next } = this.#parts;
    next.addFrontend();
    if (changes.has(after.id) || this.touched.has(after.id)) return;
    if (!changes.holds(owner, after)) return;
    const faults = faultsIn(drift);
    const before = this.#found!.take(after);
    next.writer.write({ of: 'frontend', from: 'kernel', owner, before, after, drift });
    if (faultsIn(drift) > faults) next.bytes += after.bytes ?? 0;
  }

  repairShared({ owner, object }: Needed<T['shared']>, drift: Counts): void {
    const { next, shared } = this.#parts;
    const { id } = object;
    if (this.#compared.has(id) || this.touched.has(id) || shared.changes(id)) return;
    if (object.laterRank !== undefined) this.#compared.add(id);
    shared.revive(id);
    const fault = this.#found?.faultOf(object);
    if (fault === undefined) return;
    // Others that need it need not compare it again.
    this.touched.add(id);
    next.bytes += object.bytes;
    next.writeWhole(object, owner, fault === 'wrong');
    drift[fault] += 1;
  }

  /** See `Repair`. */
  async finish(end: EndOfRepair<T> | undefined, pause: Pause): Promise<Drift> {
    const { changes, next } = this.#parts;
    const drift = this.uncounted;
    next.isRepair = true;
    await inTurns(this.#found!.rest(), pause, ([id, observed]) => {
      if (this.touched.has(id) || changes.has(id)) return;
      const none = { owner: '', after: undefined } as const;
      next.writer.write({ of: 'frontend', from: 'kernel', before: observed, ...none, drift });
    });
    await this.#pruneShared(drift, pause);
    await end?.(this.part(drift, pause));
    return drift;
  }

  async #pruneShared(drift: Counts, pause: Pause): Promise<void> {
    const { next, shared } = this.#parts;
    await inTurns(this.#madeLast, pause, (needed) => this.repairShared(needed, drift));
    const present = new Set<string>();
    const unneeded: Retirable[] = [];
    await inTurns(this.#found!.shared(), pause, ({ id, laterRank }) => {
      if (laterRank !== undefined) present.add(id);
      if (shared.has(id) || shared.changes(id) || this.touched.has(id)) return;
      if (laterRank === undefined) writeDeletion(next.writer, id);
      else if (shared.isRetired(id)) return;
      else unneeded.push({ id, laterRank });
      drift.unwanted += 1;
    });
    shared.retire(unneeded);
    // The deletion of what is gone would fail, and with it the whole transaction.
    shared.keepRetired((id) => present.has(id) || this.touched.has(id));
  }

  part(drift: Counts, pause: Pause): RepairPart<T> {
    const { changes, next, shared } = this.#parts;
    return {
      writer: next.writer,
      drift,
      touched: this.touched,
      pause,
      shared: () => shared.values(),
      isLeaving: (id) => shared.changes(id) && !shared.has(id),
      startOver: (how) => {
        this.touched.clear();
        this.#left.clear();
        shared.startOver();
        changes.startOver();
        next.isIndivisible = how === 'indivisible';
      },
    };
  }
}

/**
 * The difference engine of all modes. Forwardings give the desired objects. A batch is the
 * difference between two states: a normal sync goes from what is in force to what is desired, a
 * repair from what was read to what is desired.
 */
import type { ApplyResult, Kernel, TableName } from '../kernel/kernel.ts';
import type { Family } from '../net/address.ts';
import type { Forwarding } from '../state/types.ts';
import { inTurns, type Pause } from '../time/pacer.ts';
import {
  type Backend,
  type Counts,
  type EndOfRepair,
  noCounts,
  type RepairPart,
  type Types,
} from './backend.ts';
import { BoundForwardings } from './bound-forwardings.ts';
import { FrontendChanges } from './changes.ts';
import type {
  Applied,
  Batch,
  Drift,
  Environment,
  Miscount,
  Observation,
  Planner,
  Repair,
  WrittenBatch,
} from './mode.ts';
import { Comparison, type ReadComparison } from './repair.ts';
import { type Needed, type Retirable, SharedObjects } from './shared-objects.ts';

/**
 * What a frontend adds to `pendingBytes` for the work on it, even if nothing is written. Modes with
 * a `batchBytesMax` of their own count only what is written.
 */
const frontendBytes = 256;

type TakeLater = NonNullable<Planner['takeDeferred']>;

interface PlannerOptions<T extends Types> {
  readonly family: Family;
  /** Each call makes a backend that knows nothing of the kernel. */
  readonly backend: () => Backend<T>;
  readonly environment: Environment;
  /** The mode binds addresses of Services, so that the machine's own are left out; default: no. */
  readonly bindsAddresses?: boolean;
  /** See `Planner`. */
  readonly batchBytesMax?: number;
}

export class ModePlanner<T extends Types> implements Planner {
  readonly family: Family;
  readonly batchBytesMax: number | undefined;
  readonly #options: PlannerOptions<T>;
  readonly #backend: Backend<T>;
  #environment: Environment;
  /** That of the last batch taken, and that of the last one committed. */
  #environmentTaken: Environment;
  #environmentInForce: Environment;
  /** What the environment claims. */
  #ofEnvironment: readonly T['shared'][] = [];
  /** Frontends changed since the last batch. */
  readonly #changes = new FrontendChanges<T['frontend']>();
  readonly #shared = new SharedObjects<T['shared']>();
  /** All claimed Forwardings, in a mode that binds addresses. */
  readonly #bound: BoundForwardings | undefined;
  #pendingBytes = 0;
  #isIndivisible = false;
  /** Base chains are left out, so that no packet meets the rules. */
  #isStaged = false;
  #writer: ReturnType<Backend<T>['writer']>;
  /** The one that is under way. */
  #comparison: Comparison<T> | undefined;
  /** A part of a repair was planned, and waits to be taken. */
  #isRepairWaiting = false;
  /** Batches taken so far. */
  #batches = 0;
  /** The last batch that was taken. */
  #batch: 'settled' | 'taken' | 'refused' = 'settled';

  constructor(options: PlannerOptions<T>) {
    const { environment } = options;
    this.family = options.family;
    this.batchBytesMax = options.batchBytesMax;
    this.#options = options;
    this.#backend = options.backend();
    this.#environment = environment;
    this.#environmentTaken = environment;
    this.#environmentInForce = environment;
    this.#writer = this.#backend.writer();
    const release = (forwarding: Forwarding): void => this.#release(forwarding);
    const claim = (forwarding: Forwarding): void => this.#claim(forwarding);
    if (options.bindsAddresses === true) this.#bound = new BoundForwardings({ release, claim });
  }

  describe(forwarding: Forwarding): readonly string[] {
    return this.#backend.describe(forwarding, this.#environment);
  }

  cloneEmpty(): Planner {
    return new ModePlanner({ ...this.#options, environment: this.#environment });
  }

  get pendingBytes(): number {
    return this.#pendingBytes + this.#writer.byteLength;
  }

  get #frontendBytes(): number {
    return this.batchBytesMax === undefined ? frontendBytes : 0;
  }

  get indivisible(): boolean {
    return this.#isIndivisible;
  }

  change(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    if (this.#batch === 'refused') throw new Error('change planned upon a refused batch');
    if (this.#isRepairWaiting) throw new Error('change planned before a repair was taken');
    if (this.#bound !== undefined) {
      this.#bound.change(previous, next, this.#environment);
      return;
    }
    if (previous !== undefined) this.#release(previous);
    if (next !== undefined) this.#claim(next);
  }

  #release(forwarding: Forwarding): void {
    const { key: owner } = forwarding;
    const { frontends, shared } = this.#backend.objects(forwarding, this.#environment);
    for (const frontend of frontends) {
      this.#changes.release(owner, frontend);
      this.#backend.tally?.frontend(frontend, 'released');
    }
    for (const object of shared) this.#releaseShared(owner, object);
  }

  #releaseShared(owner: string, object: T['shared']): void {
    if (this.#shared.release(owner, object)) this.#backend.tally?.shared(object, -1);
  }

  #claim(forwarding: Forwarding): void {
    const { key: owner } = forwarding;
    const { frontends, shared, bytes } = this.#backend.objects(forwarding, this.#environment);
    this.#pendingBytes += bytes + frontends.length * this.#frontendBytes;
    for (const frontend of frontends) {
      this.#changes.claim(owner, frontend);
      this.#backend.tally?.frontend(frontend, 'claimed');
    }
    for (const object of shared) this.#claimShared(owner, object);
  }

  #claimShared(owner: string, object: T['shared']): void {
    if (this.#shared.claim(owner, object)) {
      this.#pendingBytes += object.bytes;
      this.#backend.tally?.shared(object, 1);
    }
    // It is needed now, whether or not the repair has come to it.
    const comparison = this.#comparison;
    if (comparison?.isBegun) {
      this.#repairShared(comparison, { owner, object }, comparison.uncounted);
    }
  }

  get environment(): Environment {
    return this.#environment;
  }

  changeEnvironment(next: Environment, pause: Pause): Promise<void> | void {
    if (next === this.#environment) return;
    const move = (): void => {
      this.#environment = next;
      this.#claimOfEnvironment();
    };
    if (this.#bound === undefined) return move();
    return this.#bound.move(this.#environment, next, pause, move);
  }

  #claimOfEnvironment(): void {
    for (const object of this.#ofEnvironment) this.#releaseShared('', object);
    this.#ofEnvironment = this.#backend.ofEnvironment(this.#environment, this.#isStaged);
    for (const object of this.#ofEnvironment) this.#claimShared('', object);
  }

  take(): Batch | undefined {
    this.#checkSettled();
    const touched = this.#comparison?.touched;
    for (const [id, { owner, before, after }] of this.#changes.entries()) {
      this.#writer.frontend({ from: 'belief', owner, before, after });
      touched?.add(id);
    }
    this.#writeShared(touched);
    this.#environmentTaken = this.#environment;
    const written = this.#writer.batch(touched);
    this.#startBatch();
    return this.#taken(written);
  }

  #checkSettled(): void {
    if (this.#batch === 'taken')
      throw new Error('the batch before was neither committed nor refused');
    if (this.#batch === 'refused') throw new Error('batch taken after a refused one');
  }

  /** What was recorded for nothing that has to be written is in force already. */
  #taken(written: WrittenBatch | undefined): Batch | undefined {
    if (written === undefined) {
      this.#confirm('nothing to write');
      return undefined;
    }
    this.#batch = 'taken';
    this.#batches += 1;
    return {
      ...written,
      committed: (result) => {
        this.#batch = 'settled';
        this.#confirm(result);
      },
      refused: () => {
        this.#batch = 'refused';
        this.#rollback();
      },
    };
  }

  #writeShared(touched: Set<string> | undefined): void {
    const { added, deleted } = this.#shared.take();
    for (const { object, owner, isThere } of added) {
      // An unused object is not repaired, so others may have changed it.
      const mayBeThere =
        isThere || (this.#comparison?.found?.faultOf(object) ?? 'missing') !== 'missing';
      this.#writer.add(object, owner, mayBeThere);
      touched?.add(object.id);
    }
    for (const { object, owner } of deleted) {
      this.#writer.delete(object.id, owner);
      touched?.add(object.id);
    }
  }

  #startBatch(): void {
    this.#changes.clear();
    this.#pendingBytes = 0;
    this.#isIndivisible = false;
    this.#isRepairWaiting = false;
    this.#writer = this.#backend.writer();
  }

  /** What was recorded so far is in force: the state before it is not needed any more. */
  #confirm(outcome: Applied | 'nothing to write'): void {
    this.#environmentInForce = this.#environmentTaken;
    this.#shared.confirm();
    this.#backend.settle?.(outcome);
  }

  /** What was recorded since is not in force. */
  #rollback(): void {
    this.#environmentTaken = this.#environmentInForce;
    this.#shared.rollback();
    this.#backend.settle?.('refused');
  }

  get takeDeferred(): TakeLater | undefined {
    const isAny = this.#shared.isAnyRetired || this.#backend.deferred !== undefined;
    return isAny ? this.#takeDeferred : undefined;
  }

  readonly #takeDeferred: TakeLater = (kernel) => {
    this.#checkSettled();
    const writer = this.#backend.writer();
    const ids = this.#shared.due();
    for (const id of ids) writer.delete(id, '');
    const finish = (late: Iterable<string>): Batch | undefined => {
      const touched = this.#comparison?.touched;
      for (const id of [...ids, ...late]) touched?.add(id);
      return this.#taken(writer.batch(touched));
    };
    const late = this.#backend.deferred?.(kernel, writer) ?? [];
    return late instanceof Promise ? late.then(finish) : finish(late);
  };

  get takeSweep(): TakeLater | undefined {
    const isDue = this.#batch !== 'taken' && this.#backend.sweep !== undefined;
    return isDue ? this.#takeSweep : undefined;
  }

  readonly #takeSweep: TakeLater = async (kernel) => {
    this.#checkSettled();
    const writer = this.#backend.writer();
    await this.#backend.sweep?.(kernel, writer);
    return this.#taken(writer.batch(undefined));
  };

  takeReport(): ReturnType<NonNullable<Planner['takeReport']>> {
    return {
      refused: this.#bound?.takeRefused() ?? [],
      rules: this.#backend.tally?.takeRules?.() ?? [],
    };
  }

  get exposed(): readonly TableName[] {
    return this.#backend.exposed ?? [];
  }

  async prepare(
    kernel: Kernel,
    transact: (ops: Uint8Array) => Promise<ApplyResult>,
  ): ReturnType<Planner['prepare']> {
    await this.#backend.prepare?.(kernel, transact);
    return { observe: (reader, pause) => this.observe(reader, pause) };
  }

  #stage(comparison: Comparison<T>): (() => Batch | undefined) | undefined {
    const { found } = this.#current(comparison);
    if (found.isHooked !== false) return undefined;
    this.#isStaged = true;
    return () => this.#hook();
  }

  #hook(): Batch | undefined {
    this.#isStaged = false;
    this.#claimOfEnvironment();
    return this.take();
  }

  async miscounts(kernel: Kernel): Promise<readonly Miscount[] | undefined> {
    const isWaiting = this.#changes.isAny || this.#shared.isAnyChanged;
    if (isWaiting || this.#batch !== 'settled') return undefined;
    return this.#backend.tally?.miscounts?.(kernel);
  }

  async resume(inForce: Iterable<Forwarding>, pause: Pause): Promise<void> {
    this.#rollback();
    this.#backend.tally?.clear();
    this.#changes.reset();
    this.#shared.reset();
    this.#bound?.clear();
    if (this.#comparison !== undefined) this.#comparison.isBegun = false;
    this.#startBatch();
    this.#batch = 'settled';
    this.#environment = this.#environmentInForce;
    this.#ofEnvironment = this.#backend.ofEnvironment(this.#environment, this.#isStaged);
    for (const object of this.#ofEnvironment) this.#resumeShared('', object);
    await inTurns(inForce, pause, (forwarding) => this.#resume(forwarding));
  }

  #resume(forwarding: Forwarding): void {
    const { key: owner } = forwarding;
    const { frontends, shared } = this.#backend.objects(forwarding, this.#environment);
    for (const frontend of frontends) {
      this.#changes.resume(owner, frontend);
      this.#backend.tally?.frontend(frontend, 'resumed');
    }
    for (const object of shared) this.#resumeShared(owner, object);
    this.#bound?.resume(forwarding, this.#environment);
  }

  #resumeShared(owner: string, object: T['shared']): void {
    if (this.#shared.resume(owner, object)) this.#backend.tally?.shared(object, 1);
  }

  async observe(kernel: Kernel, pause: Pause): Promise<Observation> {
    const batches = this.#batches;
    let isStale = this.#batch !== 'settled';
    // From now on it gets what batches write, whether that was read before or after.
    const comparison = new Comparison<T>();
    this.#comparison = comparison;
    try {
      comparison.found = await this.#backend.read(kernel, pause);
    } catch (error) {
      this.#drop(comparison);
      throw error;
    }
    const { found } = this.#current(comparison);
    const { allowsBatches = false, generation } = found;
    isStale ||= this.#batches !== batches || this.#batch !== 'settled' || this.pendingBytes > 0;
    return {
      generation,
      allowsBatches,
      isStale: isStale && !allowsBatches,
      adopt: (next) => found.adopt?.(next) ?? next,
      stage: () => this.#stage(comparison),
      repair: (slice) => this.#begin(comparison, slice),
      restore: async (targets, slice) => {
        this.#environmentInForce = this.#environment;
        await this.resume(targets, slice);
        return this.#begin(comparison, slice);
      },
      drop: () => this.#drop(comparison),
    };
  }

  async #begin(comparison: Comparison<T>, pause: Pause): Promise<Repair> {
    const { found } = this.#current(comparison);
    const drift = noCounts();
    this.#isIndivisible = false;
    const end = await this.#backend.repairFixed(found, this.#part(comparison, drift, pause));
    comparison.isBegun = true;
    for (const object of this.#ofEnvironment) {
      this.#repairShared(comparison, { owner: '', object }, drift);
    }
    return {
      drift,
      compare: (desired) => this.#compare(comparison, desired),
      finish: (slice) => this.#finish(comparison, end, slice),
    };
  }

  #compare(comparison: Comparison<T>, desired: Forwarding): Drift {
    const current = this.#current(comparison);
    const { found, madeLast, touched } = current;
    this.#isRepairWaiting = true;
    const drift = noCounts();
    const { key: owner } = desired;
    const { frontends, shared } = this.#backend.objects(desired, this.#environment);
    for (const object of shared) {
      if (object.isMadeLast === true) madeLast.push({ owner, object });
      else this.#repairShared(current, { owner, object }, drift);
    }
    for (const frontend of frontends) {
      this.#pendingBytes += this.#frontendBytes;
      if (this.#changes.has(frontend.id) || touched.has(frontend.id)) continue;
      if (!this.#changes.holds(owner, frontend)) continue;
      const before = found.take(frontend);
      this.#writer.frontend({ from: 'kernel', owner, before, after: frontend, drift });
    }
    return drift;
  }

  #repairShared(
    { compared, found, touched }: Comparison<T>,
    { owner, object }: Needed<T['shared']>,
    drift: Counts,
  ): void {
    const { id } = object;
    if (compared.has(id) || touched.has(id) || this.#shared.changes(id)) return;
    if (object.laterRank !== undefined) compared.add(id);
    this.#shared.revive(id);
    const fault = found?.faultOf(object);
    if (fault === undefined) return;
    // Others that need it need not compare it again.
    touched.add(id);
    this.#pendingBytes += object.bytes;
    this.#writer.add(object, owner, fault === 'wrong');
    drift[fault] += 1;
  }

  async #finish(
    comparison: Comparison<T>,
    end: EndOfRepair<T> | undefined,
    pause: Pause,
  ): Promise<Drift> {
    const current = this.#current(comparison);
    const { found, touched, uncounted: drift } = current;
    this.#isRepairWaiting = true;
    await inTurns(found.rest(), pause, ([id, held]) => {
      if (touched.has(id) || this.#changes.has(id)) return;
      const after = undefined;
      this.#writer.frontend({ from: 'kernel', owner: '', before: held, after, drift });
    });
    await this.#pruneShared(current, drift, pause);
    await end?.(this.#part(comparison, drift, pause));
    this.#drop(comparison);
    return drift;
  }

  #drop(comparison: Comparison<T>): void {
    if (this.#comparison === comparison) this.#comparison = undefined;
  }

  async #pruneShared(comparison: ReadComparison<T>, drift: Counts, pause: Pause): Promise<void> {
    const { found, madeLast, touched } = comparison;
    await inTurns(madeLast, pause, (needed) => this.#repairShared(comparison, needed, drift));
    const present = new Set<string>();
    const unneeded: Retirable[] = [];
    await inTurns(found.shared(), pause, ({ id, laterRank }) => {
      if (laterRank !== undefined) present.add(id);
      if (this.#shared.has(id) || this.#shared.changes(id) || touched.has(id)) return;
      if (laterRank === undefined) this.#writer.delete(id, '');
      else if (this.#shared.isRetired(id)) return;
      else unneeded.push({ id, laterRank });
      drift.unwanted += 1;
    });
    this.#shared.retire(unneeded);
    // The deletion of what is gone would fail, and with it the whole transaction.
    this.#shared.keepRetired((id) => present.has(id) || touched.has(id));
  }

  #part(comparison: Comparison<T>, drift: Counts, pause: Pause): RepairPart<T> {
    const { touched } = comparison;
    return {
      writer: this.#writer,
      drift,
      touched,
      pause,
      shared: () => this.#shared.values(),
      isLeaving: (id) => this.#shared.changes(id) && !this.#shared.has(id),
      startAnew: (how) => {
        touched.clear();
        this.#shared.startAnew();
        this.#changes.startAnew();
        this.#isIndivisible = how === 'indivisible';
      },
    };
  }

  /** A planner notes what batches write in what it read last, and compares with nothing else. */
  #current(comparison: Comparison<T>): ReadComparison<T> {
    if (this.#comparison !== comparison) {
      throw new Error('the observation is stale: it was dropped, or another one was made');
    }
    return comparison as ReadComparison<T>;
  }
}

/**
 * The difference engine of all modes. Forwardings give the desired objects. A batch is the
 * difference between two states: a normal sync goes from what is in force to what is desired, a
 * repair from what was read to what is desired.
 */
import type { ApplyResult, Kernel, KernelReader } from '../kernel/kernel.ts';
import { atOneGeneration } from '../kernel/steady.ts';
import type { Family } from '../net/address.ts';
import type { Forwarding } from '../state/types.ts';
import { inTurns, type Pause } from '../time/pacer.ts';
import {
  type Backend,
  type Counts,
  type EndOfRepair,
  type Found,
  type HeldShared,
  noCounts,
  type ObjectOf,
  type RepairPart,
  type TallyStep,
  type Types,
  type Writer,
} from './backend.ts';
import { BoundForwardings } from './bound-forwardings.ts';
import { FrontendChanges } from './changes.ts';
import { Comparison, type ReadComparison } from './comparison-state.ts';
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
import { type Needed, type Retirable, SharedObjects } from './shared-objects.ts';

/**
 * What a frontend adds to `pendingBytes` for the work on it, even if nothing is written. Modes with
 * a `batchBytesMax` of their own count only what is written.
 */
const frontendBytes = 256;

type TakeLater = NonNullable<Planner['takeDeferred']>;

/** What was read, and the generation of the ruleset then. */
interface Reading<T extends Types> {
  readonly found: T['found'] & Found<T>;
  readonly generation: number | undefined;
}

function isHook({ isHook = false }: HeldShared): boolean {
  return isHook;
}

function faultsIn({ missing, wrong, unwanted }: Drift): number {
  return missing + wrong + unwanted;
}

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
  /** As of the last batch that was committed. */
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
    return this.#pendingBytes;
  }

  get #frontendBytes(): number {
    return this.batchBytesMax === undefined ? frontendBytes : 0;
  }

  #isShared(object: ObjectOf<T>): object is T['shared'] {
    return object.isShared === true;
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
    for (const object of this.#backend.objects(forwarding, this.#environment)) {
      if (this.#isShared(object)) this.#releaseShared(owner, object);
      else {
        this.#changes.release(owner, object);
        this.#count(object, 'released');
      }
    }
  }

  #releaseShared(owner: string, object: T['shared']): void {
    if (this.#shared.release(owner, object)) this.#count(object, 'released');
  }

  #count(object: ObjectOf<T>, step: TallyStep): void {
    this.#backend.tally?.count(object, step);
  }

  #claim(forwarding: Forwarding): void {
    const { key: owner } = forwarding;
    for (const object of this.#backend.objects(forwarding, this.#environment)) {
      if (this.#isShared(object)) this.#claimShared(owner, object);
      else {
        this.#pendingBytes += (object.bytes ?? 0) + this.#frontendBytes;
        this.#changes.claim(owner, object);
        this.#count(object, 'claimed');
      }
    }
  }

  #claimShared(owner: string, object: T['shared']): void {
    if (this.#shared.claim(owner, object)) {
      this.#pendingBytes += object.bytes;
      this.#count(object, 'claimed');
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
    this.#ofEnvironment = this.#neededByEnvironment();
    for (const object of this.#ofEnvironment) this.#claimShared('', object);
  }

  #neededByEnvironment(): readonly T['shared'][] {
    const objects = this.#backend.ofEnvironment(this.#environment);
    return this.#isStaged ? objects.filter((one) => !isHook(one)) : objects;
  }

  take(): Batch | undefined {
    this.#checkSettled();
    const touched = this.#comparison?.touched;
    this.#changes.each((id, { owner, before, after }) => {
      this.#writer.write({ of: 'frontend', from: 'belief', owner, before, after });
      touched?.add(id);
    });
    this.#writeShared(touched);
    const written = this.#writer.batch();
    this.#startBatch();
    return this.#taken(written, this.#environment);
  }

  #checkSettled(): void {
    if (this.#batch === 'taken')
      throw new Error('the batch before was neither committed nor refused');
    if (this.#batch === 'refused') throw new Error('batch taken after a refused one');
  }

  /** Without a batch, what was recorded is in force already, and so is `environment`. */
  #taken(written?: WrittenBatch, environment = this.#environmentInForce): Batch | undefined {
    this.#shared.taken();
    this.#backend.taken?.();
    if (written === undefined) {
      this.#confirm('nothing to write', environment);
      return undefined;
    }
    this.#batch = 'taken';
    this.#batches += 1;
    const touched = this.#comparison?.touched;
    if (touched) for (const name of written.deleted?.() ?? []) touched.add(name);
    return {
      ...written,
      committed: (result) => {
        this.#batch = 'settled';
        this.#confirm(result, environment);
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
      // An unused object is not repaired, so others may have changed it. What a batch has written
      // or deleted since the reading is as we know it.
      const found = touched?.has(object.id) ? undefined : this.#comparison?.found;
      const mayBeThere = isThere || (found?.faultOf(object) ?? 'missing') !== 'missing';
      this.#writeWhole(object, owner, mayBeThere);
      touched?.add(object.id);
    }
    for (const { object, owner } of deleted) {
      this.#writeDeletion(this.#writer, object.id, owner);
      touched?.add(object.id);
    }
  }

  #writeWhole(object: T['shared'], owner: string, isThere: boolean): void {
    this.#writer.write({ of: 'shared', id: object.id, owner, after: object, isThere });
  }

  /** Deletes an object that nothing needs. */
  #writeDeletion(writer: Writer<T>, id: string, owner = ''): void {
    writer.write({ of: 'shared', id, owner, after: undefined, isThere: true });
  }

  #startBatch(): void {
    this.#changes.clear();
    this.#pendingBytes = 0;
    this.#isIndivisible = false;
    this.#isRepairWaiting = false;
    this.#writer = this.#backend.writer();
  }

  /** What was recorded so far is in force: the state before it is not needed any more. */
  #confirm(outcome: Applied | 'nothing to write', environment: Environment): void {
    this.#environmentInForce = environment;
    this.#shared.confirm();
    this.#backend.settle?.(outcome);
  }

  /** What was recorded since is not in force. */
  #rollback(): void {
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
    for (const id of ids) this.#writeDeletion(writer, id);
    const finish = (late: Iterable<string>): Batch | undefined => {
      const touched = this.#comparison?.touched;
      for (const id of [...ids, ...late]) touched?.add(id);
      return this.#taken(writer.batch());
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
    return this.#taken(writer.batch());
  };

  get unswept(): Planner['unswept'] {
    return this.#backend.unswept;
  }

  takeReport(): ReturnType<Planner['takeReport']> {
    const rules = this.#backend.tally?.takeRules?.() ?? [];
    return { refused: this.#bound?.takeRefused() ?? [], rules };
  }

  get exposed(): Planner['exposed'] {
    return this.#backend.tables?.exposed;
  }

  async prepare(
    kernel: Kernel,
    transact: (ops: Uint8Array) => Promise<ApplyResult>,
  ): ReturnType<Planner['prepare']> {
    await this.#backend.tables?.prepare(kernel, transact);
    return { observe: (reader, pause) => this.observe(reader, pause) };
  }

  #stage(comparison: Comparison<T>): (() => Batch | undefined) | undefined {
    const { found } = this.#current(comparison);
    const hooks = this.#backend.ofEnvironment(this.#environment).filter(isHook);
    if (hooks.length === 0) return undefined;
    for (const held of found.shared()) if (isHook(held)) return undefined;
    this.#isStaged = true;
    return () => this.#hook();
  }

  #hook(): Batch | undefined {
    this.#isStaged = false;
    this.#claimOfEnvironment();
    return this.take();
  }

  async miscounts(kernel: KernelReader): Promise<readonly Miscount[] | undefined> {
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
    this.#ofEnvironment = this.#neededByEnvironment();
    for (const object of this.#ofEnvironment) this.#resumeShared('', object);
    await inTurns(inForce, pause, (forwarding) => this.#resume(forwarding));
  }

  #resume(forwarding: Forwarding): void {
    const { key: owner } = forwarding;
    for (const object of this.#backend.objects(forwarding, this.#environment)) {
      if (this.#isShared(object)) this.#resumeShared(owner, object);
      else {
        this.#changes.resume(owner, object);
        this.#count(object, 'resumed');
      }
    }
    this.#bound?.resume(forwarding, this.#environment);
  }

  #resumeShared(owner: string, object: T['shared']): void {
    if (this.#shared.resume(owner, object)) this.#count(object, 'resumed');
  }

  async observe(kernel: KernelReader, pause: Pause): Promise<Observation> {
    const batches = this.#batches;
    let isStale = this.#batch !== 'settled';
    // From now on it gets what batches write, whether that was read before or after.
    const comparison = new Comparison<T>();
    this.#comparison = comparison;
    const { allowsBatches = false } = this.#backend;
    let generation: number | undefined;
    try {
      ({ found: comparison.found, generation } = await this.#read(kernel, pause));
    } catch (error) {
      this.#drop(comparison);
      throw error;
    }
    const { found } = this.#current(comparison);
    isStale ||= this.#batches !== batches || this.#batch !== 'settled' || this.pendingBytes > 0;
    return {
      generation,
      allowsBatches,
      isStale: isStale && !allowsBatches,
      adopt: (next) => found.adopt?.(next) ?? next,
      leave: (forwarding) => this.#leave(comparison, forwarding),
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

  async #read(kernel: KernelReader, pause: Pause): Promise<Reading<T>> {
    const { allowsBatches = false, tables } = this.#backend;
    const read = (): Promise<Reading<T>['found']> => this.#backend.read(kernel, pause);
    if (tables === undefined) return { found: await read(), generation: undefined };
    if (!allowsBatches) return atOneGeneration(kernel, read);
    const generation = await kernel.generation();
    return { found: await read(), generation };
  }

  #leave(comparison: Comparison<T>, forwarding: Forwarding): boolean {
    if (this.#backend.isOptional === true) return false;
    const { found, left } = this.#current(comparison);
    let isThere = false;
    for (const object of this.#backend.objects(forwarding, this.#environment)) {
      if (!this.#isShared(object) && found.take(object) !== undefined) isThere = true;
    }
    if (isThere) left.add(forwarding.key);
    return isThere;
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
    this.#isRepairWaiting = true;
    const drift = noCounts();
    const { key: owner } = desired;
    if (current.left.has(owner)) return drift;
    for (const object of this.#backend.objects(desired, this.#environment)) {
      if (!this.#isShared(object)) this.#repairFrontend(current, { owner, object }, drift);
      else if (object.isMadeLast === true) current.madeLast.push({ owner, object });
      else this.#repairShared(current, { owner, object }, drift);
    }
    return drift;
  }

  #repairFrontend(
    { found, touched }: ReadComparison<T>,
    { owner, object: after }: { readonly owner: string; readonly object: T['frontend'] },
    drift: Counts,
  ): void {
    this.#pendingBytes += this.#frontendBytes;
    if (this.#changes.has(after.id) || touched.has(after.id)) return;
    if (!this.#changes.holds(owner, after)) return;
    const faults = faultsIn(drift);
    const before = found.take(after);
    this.#writer.write({ of: 'frontend', from: 'kernel', owner, before, after, drift });
    if (faultsIn(drift) > faults) this.#pendingBytes += after.bytes ?? 0;
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
    this.#writeWhole(object, owner, fault === 'wrong');
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
      const none = { owner: '', after: undefined } as const;
      this.#writer.write({ of: 'frontend', from: 'kernel', before: held, ...none, drift });
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
      if (laterRank === undefined) this.#writeDeletion(this.#writer, id);
      else if (this.#shared.isRetired(id)) return;
      else unneeded.push({ id, laterRank });
      drift.unwanted += 1;
    });
    this.#shared.retire(unneeded);
    // The deletion of what is gone would fail, and with it the whole transaction.
    this.#shared.keepRetired((id) => present.has(id) || touched.has(id));
  }

  #part(comparison: Comparison<T>, drift: Counts, pause: Pause): RepairPart<T> {
    const { left, touched } = comparison;
    return {
      writer: this.#writer,
      drift,
      touched,
      pause,
      shared: () => this.#shared.values(),
      isLeaving: (id) => this.#shared.changes(id) && !this.#shared.has(id),
      startOver: (how) => {
        touched.clear();
        left.clear();
        this.#shared.startOver();
        this.#changes.startOver();
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

/**
 * The difference engine of all modes. Forwardings give the desired objects. A batch is the
 * difference between two states: a normal sync goes from what is in force to what is desired, a
 * repair from what was read to what is desired.
 */
import type { ApplyResult, Kernel, KernelReader, WatchedTable } from '../kernel/kernel.ts';
import { atOneGeneration, generationOfOthers } from '../kernel/steady.ts';
import type { Family } from '../net/address.ts';
import type { Forwarding } from '../state/types.ts';
import { inTurns, type Pause } from '../time/pacer.ts';
import {
  type Backend,
  type Found,
  isShared,
  noCounts,
  type ObjectOf,
  type TallyStep,
  type Types,
} from './backend.ts';
import { BoundForwardings } from './bound-forwardings.ts';
import { FrontendChanges } from './changes.ts';
import { Comparison } from './comparison-state.ts';
import type {
  Applied,
  Batch,
  Environment,
  KernelState,
  Miscount,
  Observation,
  RefusedAddress,
  Repair,
  RuleCount,
  TakeLater,
  WrittenBatch,
} from './mode.ts';
import { NextBatch, writeDeletion } from './next-batch.ts';
import { type SharedObject, SharedObjects } from './shared-objects.ts';

/**
 * What a frontend adds to `pendingBytes` for the work on it, even if nothing is written. Modes with
 * a `batchBytesMax` of their own count only what is written.
 */
const frontendBytes = 256;

/** What was read, and the generation of others then. */
interface Reading<T extends Types> {
  readonly found: T['found'] & Found<T>;
  readonly generation: number | undefined;
}

function isHook({ isHook = false }: SharedObject): boolean {
  return isHook;
}

/** What the planner has noticed since it was asked last. */
interface PlannerReport {
  /** Only modes that bind addresses refuse any. */
  readonly refused: readonly RefusedAddress[];
  /** By table, in modes that have rules for each Service. */
  readonly rules: readonly RuleCount[];
}

/** Reads for a start or a recovery, once `ModePlanner.prepare` has made what rules need. */
interface Prepared {
  observe(kernel: KernelReader, pause: Pause): Promise<KernelState>;
}

interface PlannerOptions<T extends Types> {
  readonly family: Family;
  /** Each call makes a backend that knows nothing of the kernel. */
  readonly backend: () => Backend<T>;
  readonly environment: Environment;
  /** The mode binds addresses of Services, so that the machine's own are left out; default: no. */
  readonly bindsAddresses?: boolean;
  /** See `ModePlanner`. */
  readonly batchBytesMax?: number;
}

/** A planner of whatever mode. */
export type Planner = Pick<ModePlanner<Types>, keyof ModePlanner<Types>>;

/** Plans the batches of one family, and remembers what they bring into force. */
export class ModePlanner<T extends Types> {
  readonly family: Family;
  /**
   * How large batches may be, where a commit costs what the whole tables hold: there small batches
   * cost the kernel more time, not less.
   */
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
  /** What waits to be taken. */
  readonly #next: NextBatch<T>;
  /** The last batch that was taken. */
  readonly #last: { number: number; state: 'settled' | 'taken' | 'refused' };
  /** Base chains are left out, so that no packet meets the rules. */
  #isStaged = false;
  /** The one that is under way. */
  #comparison: Comparison<T> | undefined;

  constructor(options: PlannerOptions<T>) {
    const { environment } = options;
    this.family = options.family;
    this.batchBytesMax = options.batchBytesMax;
    this.#options = options;
    this.#backend = options.backend();
    this.#environment = environment;
    this.#environmentInForce = environment;
    this.#last = { number: 0, state: 'settled' };
    this.#next = new NextBatch(
      this.#backend,
      options.batchBytesMax === undefined ? frontendBytes : 0,
    );
    const release = (one: Forwarding): void => this.#end(one);
    const claim = (next: Forwarding, previous?: Forwarding): void => this.#claim(next, previous);
    if (options.bindsAddresses === true) this.#bound = new BoundForwardings({ release, claim });
  }

  /** What the kernel holds of a Forwarding, in the words of the tool that lists it. */
  describe(forwarding: Forwarding): readonly string[] {
    return this.#backend.describe(forwarding, this.#environment);
  }

  /** A new planner for the same, that knows nothing of the kernel: for comparisons. */
  cloneEmpty(): Planner {
    return new ModePlanner({ ...this.#options, environment: this.#environment });
  }

  /** Bytes of ops waiting to be taken. */
  get pendingBytes(): number {
    return this.#next.bytes;
  }

  /**
   * True while what waits replaces rules that are in force: in several batches, packets would meet
   * half of it.
   */
  get indivisible(): boolean {
    return this.#next.isIndivisible;
  }

  /**
   * Plans the change of one Forwarding. `previous` undefined: it did not exist. `next` undefined:
   * it is no longer desired. Two Forwardings in one batch never have the same frontend
   * (`sync/handover.ts`).
   *
   * @throws Error while a part of a repair waits to be taken, and after a refused batch.
   */
  change(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    if (this.#last.state === 'refused') throw new Error('change planned upon a refused batch');
    if (this.#next.isRepair) throw new Error('change planned before a repair was taken');
    if (this.#bound !== undefined) this.#bound.change(previous, next, this.#environment);
    else if (next !== undefined) this.#claim(next, previous);
    else if (previous !== undefined) this.#end(previous);
  }

  #end(forwarding: Forwarding): void {
    this.#next.bytes += this.#release(forwarding);
  }

  /** Returns what its frontends cost in a batch, in bytes of ops. */
  #release(forwarding: Forwarding): number {
    const { key: owner } = forwarding;
    let bytes = 0;
    for (const object of this.#backend.objects(forwarding, this.#environment)) {
      if (isShared<T>(object)) this.#releaseShared(owner, object);
      else {
        bytes += object.bytes ?? 0;
        this.#changes.release(owner, object);
        this.#count(object, 'released');
      }
    }
    return bytes;
  }

  #releaseShared(owner: string, object: T['shared']): void {
    if (this.#shared.release(owner, object)) this.#count(object, 'released');
  }

  #count(object: ObjectOf<T>, step: TallyStep): void {
    this.#backend.tally?.count(object, step);
  }

  /** `previous` is released after shared objects are claimed: those of both do not change then. */
  #claim(forwarding: Forwarding, previous?: Forwarding): void {
    const { key: owner } = forwarding;
    const objects = this.#backend.objects(forwarding, this.#environment);
    for (const object of objects) if (isShared<T>(object)) this.#claimShared(owner, object);
    let left = previous === undefined ? 0 : this.#release(previous);
    for (const object of objects) {
      if (!isShared<T>(object)) {
        left -= object.bytes ?? 0;
        this.#next.addFrontend(object.bytes);
        this.#changes.claim(owner, object);
        this.#count(object, 'claimed');
      }
    }
    // What is deleted of a pool that shrinks.
    this.#next.bytes += Math.max(0, left);
  }

  #claimShared(owner: string, object: T['shared']): void {
    if (this.#shared.claim(owner, object)) {
      this.#next.bytes += object.bytes;
      this.#count(object, 'claimed');
    }
    // It is needed now, whether or not the repair has come to it.
    const comparison = this.#comparison;
    if (comparison?.isBegun) comparison.repairShared({ owner, object }, comparison.uncounted);
  }

  /** What applies to all Services, as it was planned last. */
  get environment(): Environment {
    return this.#environment;
  }

  /** Plans a change of it; none, if it is the same object. */
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

  /**
   * Takes what waits, as one batch; undefined when nothing does.
   *
   * @throws Error while another batch is neither committed nor refused, and after a refused one.
   */
  take(): Batch | undefined {
    this.#checkSettled();
    const touched = this.#comparison?.touched;
    this.#changes.each((id, { owner, before, after }) => {
      this.#next.writer.write({ of: 'frontend', from: 'belief', owner, before, after });
      touched?.add(id);
    });
    this.#writeShared(touched);
    const written = this.#next.writer.batch();
    this.#startBatch();
    return this.#taken(written, this.#environment);
  }

  #checkSettled(): void {
    const { state } = this.#last;
    if (state === 'taken') throw new Error('the batch before was neither committed nor refused');
    if (state === 'refused') throw new Error('batch taken after a refused one');
  }

  /** Without a batch, what was recorded is in force already, and so is `environment`. */
  #taken(written?: WrittenBatch, environment = this.#environmentInForce): Batch | undefined {
    this.#shared.taken();
    this.#backend.taken?.();
    if (written === undefined) {
      this.#confirm('nothing to write', environment);
      return undefined;
    }
    this.#last.state = 'taken';
    this.#last.number += 1;
    const touched = this.#comparison?.touched;
    if (touched) for (const name of written.deleted?.() ?? []) touched.add(name);
    return {
      ...written,
      committed: (result) => {
        this.#last.state = 'settled';
        this.#confirm(result, environment);
      },
      refused: () => {
        this.#last.state = 'refused';
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
      this.#next.writeWhole(object, owner, mayBeThere);
      touched?.add(object.id);
    }
    for (const { object, owner } of deleted) {
      writeDeletion(this.#next.writer, object.id, owner);
      touched?.add(object.id);
    }
  }

  #startBatch(): void {
    this.#changes.clear();
    this.#next.begin();
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

  /**
   * Takes deletions that must not share a transaction with what made the objects unused: a packet
   * between two lookups may still need them, and kernels before 6.2 still count the reference. They
   * are a transaction of their own, so that a refusal harms nothing. It deletes what already waited
   * when it was called last. Where the kernel knows whether an object is needed (a real server has
   * connections), it is asked instead. Undefined: nothing waits.
   */
  get takeDeferred(): TakeLater | undefined {
    const isAny = this.#shared.isAnyRetired || this.#backend.deferred !== undefined;
    return isAny ? this.#takeDeferred : undefined;
  }

  readonly #takeDeferred: TakeLater = (kernel) => {
    this.#checkSettled();
    const writer = this.#backend.writer();
    const ids = this.#shared.due();
    for (const id of ids) writeDeletion(writer, id);
    const finish = (late: Iterable<string>): Batch | undefined => {
      const touched = this.#comparison?.touched;
      for (const id of [...ids, ...late]) touched?.add(id);
      return this.#taken(writer.batch());
    };
    const late = this.#backend.deferred?.(kernel, writer) ?? [];
    return late instanceof Promise ? late.then(finish) : finish(late);
  };

  /**
   * Reads what packets have written (session affinity) and deletes what points at endpoints that
   * are gone. An element may expire between reading and deleting: then the batch fails (ENOENT),
   * and it is still due. Undefined: no batch in force has deleted endpoints that clients may be
   * bound to.
   */
  get takeSweep(): TakeLater | undefined {
    const isDue = this.#last.state !== 'taken' && this.#backend.sweep !== undefined;
    return isDue ? this.#takeSweep : undefined;
  }

  readonly #takeSweep: TakeLater = async (kernel) => {
    this.#checkSettled();
    const writer = this.#backend.writer();
    await this.#backend.sweep?.(kernel, writer);
    return this.#taken(writer.batch());
  };

  /**
   * Whether clients of a Forwarding may still be led to endpoints that are gone, until sweeps have
   * deleted what binds them. It answers for the moment in which it is called. Undefined: those of
   * none.
   */
  get unswept(): ((forwarding: Forwarding) => boolean) | undefined {
    return this.#backend.unswept;
  }

  /** What the planner has noticed since the last call. */
  takeReport(): PlannerReport {
    const rules = this.#backend.tally?.takeRules?.() ?? [];
    return { refused: this.#bound?.takeRefused() ?? [], rules };
  }

  /**
   * Tables of nf_tables that we write and that others can change. Undefined: the mode has none, or
   * no packet meets them yet. While they are watched, a commit takes the kernel a fifth longer.
   */
  get exposed(): readonly WatchedTable[] | undefined {
    return this.#isStaged ? undefined : this.#backend.tables?.exposed;
  }

  /**
   * Makes what rules need and a batch cannot make: by other means, or by `transact` in a
   * transaction of its own. It may change what is desired.
   */
  async prepare(
    kernel: Kernel,
    transact: (ops: Uint8Array) => Promise<ApplyResult>,
  ): Promise<Prepared> {
    await this.#backend.tables?.prepare(kernel, transact);
    return { observe: (reader, pause) => this.observe(reader, pause) };
  }

  #stage(comparison: Comparison<T>): (() => Batch | undefined) | undefined {
    const { found } = this.#current(comparison);
    const hooks = this.#backend.ofEnvironment(this.#environment).filter(isHook);
    if (hooks.length === 0 || found!.isHooked === true) return undefined;
    this.#isStaged = true;
    return () => this.#hook();
  }

  #hook(): Batch | undefined {
    this.#isStaged = false;
    this.#claimOfEnvironment();
    return this.take();
  }

  /**
   * Compares how many objects should be in force with the kernel's own count, at a small part of
   * what `observe` costs. Resolves to undefined where the kernel does not count, and while changes
   * are on their way.
   */
  async miscounts(kernel: KernelReader): Promise<readonly Miscount[] | undefined> {
    const isWaiting = this.#changes.isAny || this.#shared.isAnyChanged;
    if (isWaiting || this.#last.state !== 'settled') return undefined;
    return this.#backend.tally?.miscounts?.(kernel);
  }

  /**
   * Starts again from what is in force, also of the environment: forgets all that waits, and what
   * was taken and not committed.
   */
  async resume(inForce: Iterable<Forwarding>, pause: Pause): Promise<void> {
    this.#rollback();
    this.#backend.tally?.clear();
    this.#changes.reset();
    this.#shared.reset();
    this.#bound?.clear();
    if (this.#comparison !== undefined) this.#comparison.isBegun = false;
    this.#startBatch();
    this.#last.state = 'settled';
    this.#environment = this.#environmentInForce;
    this.#ofEnvironment = this.#neededByEnvironment();
    for (const object of this.#ofEnvironment) this.#resumeShared('', object);
    await inTurns(inForce, pause, (forwarding) => this.#resume(forwarding));
  }

  #resume(forwarding: Forwarding): void {
    const { key: owner } = forwarding;
    for (const object of this.#backend.objects(forwarding, this.#environment)) {
      if (isShared<T>(object)) this.#resumeShared(owner, object);
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

  /** Reads what the kernel holds of ours. */
  async observe(kernel: KernelReader, pause: Pause): Promise<Observation> {
    const { number, state } = this.#last;
    // From now on it gets what batches write, whether that was read before or after.
    const [backend, changes, shared, next] = [
      this.#backend,
      this.#changes,
      this.#shared,
      this.#next,
    ];
    const comparison = new Comparison<T>({ backend, changes, shared, next });
    this.#comparison = comparison;
    const { allowsBatches = false } = backend;
    let generation: number | undefined;
    try {
      const reading = await this.#read(kernel, pause);
      comparison.read(reading.found);
      ({ generation } = reading);
    } catch (error) {
      this.#drop(comparison);
      throw error;
    }
    const { found } = this.#current(comparison);
    const isMoved = this.#last.number !== number || this.#last.state !== 'settled';
    const isStale = state !== 'settled' || isMoved || this.pendingBytes > 0;
    return {
      generation,
      allowsBatches,
      isStale: isStale && !allowsBatches,
      adopt: (desired) => found!.adopt?.(desired) ?? desired,
      leave: (forwarding) => this.#current(comparison).leave(forwarding, this.#environment),
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
    const generation = await generationOfOthers(kernel);
    return { found: await (allowsBatches ? read() : atOneGeneration(kernel, read)), generation };
  }

  async #begin(comparison: Comparison<T>, pause: Pause): Promise<Repair> {
    const { found } = this.#current(comparison);
    const drift = noCounts();
    this.#next.isIndivisible = false;
    const end = await this.#backend.repairFixed(found!, comparison.part(drift, pause));
    comparison.isBegun = true;
    for (const object of this.#ofEnvironment) comparison.repairShared({ owner: '', object }, drift);
    return {
      drift,
      compare: (desired) => this.#current(comparison).compare(desired, this.#environment),
      finish: async (slice) => {
        const rest = await this.#current(comparison).finish(end, slice);
        this.#drop(comparison);
        return rest;
      },
    };
  }

  #drop(comparison: Comparison<T>): void {
    if (this.#comparison === comparison) this.#comparison = undefined;
  }

  /** A planner notes what batches write in what it read last, and compares with nothing else. */
  #current(comparison: Comparison<T>): Comparison<T> {
    if (this.#comparison === comparison) return comparison;
    throw new Error('the observation is stale: it was dropped, or another one was made');
  }
}

/**
 * The difference engine of all modes. Forwardings give the desired objects. A batch is the
 * difference between two states: a normal sync goes from what is in force to what is desired, a
 * repair from what was read to what is desired.
 */
import type { ApplyResult, Kernel, TableName } from '../kernel/kernel.ts';
import type { Family } from '../net/address.ts';
import type { Forwarding } from '../state/types.ts';
import { type Backend, type Counts, type Fixed, noCounts, type Types } from './backend.ts';
import { BoundForwardings } from './bound-forwardings.ts';
import { FrontendChanges } from './changes.ts';
import {
  type Batch,
  type Drift,
  type Environment,
  inTurns,
  type Miscount,
  type Observation,
  type Pause,
  type Planner,
  type Repair,
  type WrittenBatch,
} from './mode.ts';
import { Comparison, type FoundOf } from './repair.ts';
import { type Needed, SharedObjects } from './shared-objects.ts';

/**
 * What a frontend adds to `pendingBytes` for the work on it, even if nothing is written. Modes with
 * a `batchBytesMax` of their own count only what is written.
 */
const frontendBytes = 256;

type TakeLater = NonNullable<Planner['takeDeferred']>;

export class ModePlanner<T extends Types> implements Planner {
  readonly family: Family;
  readonly #backend: Backend<T>;
  #environment: Environment;
  /** What the environment claims. */
  #ofEnvironment: readonly T['shared'][] = [];
  /** Frontends changed since the last batch. */
  readonly #changes = new FrontendChanges<T['frontend']>();
  readonly #shared: SharedObjects<T['shared']>;
  /** All claimed Forwardings, in a mode that binds addresses. */
  readonly #bound: BoundForwardings | undefined;
  #pendingBytes = 0;
  #isIndivisible = false;
  #writer: ReturnType<Backend<T>['writer']>;
  /** The one that is under way. */
  #comparison: Comparison<T> | undefined;
  /** A part of a repair was planned, and waits to be taken. */
  #isRepairWaiting = false;
  /** Batches taken so far. */
  #batches = 0;
  /** The last batch that was taken. */
  #batch: 'settled' | 'taken' | 'refused' = 'settled';

  /** `addresses`: where the mode binds those of Services, the machine's own are left out. */
  constructor(
    backend: Backend<T>,
    environment: Environment,
    addresses: 'bound' | 'not bound' = 'not bound',
  ) {
    this.family = backend.family;
    this.#backend = backend;
    this.#environment = environment;
    this.#shared = new SharedObjects(backend.tables?.rankOf);
    this.#writer = backend.writer();
    const release = (forwarding: Forwarding): void => this.#release(forwarding);
    const claim = (forwarding: Forwarding): void => this.#claim(forwarding);
    if (addresses === 'bound') this.#bound = new BoundForwardings({ release, claim });
  }

  describe(forwarding: Forwarding): readonly string[] {
    return this.#backend.describe(forwarding, this.#environment);
  }

  twin(): Planner {
    const addresses = this.#bound === undefined ? 'not bound' : 'bound';
    return new ModePlanner(this.#backend.twin(), this.#environment, addresses);
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

  get batchBytesMax(): number | undefined {
    return this.#backend.tables?.batchBytesMax;
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

  environment(next: Environment, pause: Pause): Promise<void> | void {
    const move = (): void => {
      this.#environment = next;
      this.#claimOfEnvironment();
    };
    if (this.#bound === undefined) return move();
    return this.#bound.move(this.#environment, next, pause, move);
  }

  #claimOfEnvironment(): void {
    for (const object of this.#ofEnvironment) this.#releaseShared('', object);
    this.#ofEnvironment = this.#backend.ofEnvironment(this.#environment);
    for (const object of this.#ofEnvironment) this.#claimShared('', object);
  }

  take(): Batch | undefined {
    this.#checkSettled();
    const touched = this.#comparison?.found.touched;
    for (const [id, { owner, before, after }] of this.#changes.entries()) {
      this.#writer.frontend({ from: 'belief', owner, before, after });
      touched?.add(id);
    }
    this.#writeShared(touched);
    const written = this.#writer.batch();
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
      this.#confirm();
      return undefined;
    }
    this.#batch = 'taken';
    this.#batches += 1;
    return {
      ...written,
      committed: (result) => {
        this.#batch = 'settled';
        written.committed?.(result);
        this.#confirm();
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
        isThere || (this.#comparison?.found.faultOf(object) ?? 'missing') !== 'missing';
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
  #confirm(): void {
    this.#shared.confirm();
    this.#backend.late?.confirm();
  }

  /** What was recorded since is not in force. */
  #rollback(): void {
    this.#shared.rollback();
    this.#backend.late?.rollback();
  }

  get takeDeferred(): TakeLater | undefined {
    const isAny = this.#shared.isAnyRetired || this.#backend.late?.isAny === true;
    return isAny ? this.#takeDeferred : undefined;
  }

  readonly #takeDeferred: TakeLater = (kernel) => {
    this.#checkSettled();
    const writer = this.#backend.writer();
    const ids = this.#shared.due();
    for (const id of ids) writer.delete(id, '');
    const finish = (late: Iterable<string>): Batch | undefined => {
      for (const id of [...ids, ...late]) this.#comparison?.found.touched.add(id);
      return this.#taken(writer.batch());
    };
    const late = this.#backend.late?.write(kernel, writer) ?? [];
    return late instanceof Promise ? late.then(finish) : finish(late);
  };

  get takeSweep(): TakeLater | undefined {
    const isDue = this.#batch !== 'taken' && this.#backend.tables?.sweep?.isDue === true;
    return isDue ? this.#takeSweep : undefined;
  }

  readonly #takeSweep: TakeLater = async (kernel) => {
    this.#checkSettled();
    const writer = this.#backend.writer();
    await this.#backend.tables?.sweep?.write(kernel, writer);
    return this.#taken(writer.batch());
  };

  takeReport(): ReturnType<NonNullable<Planner['takeReport']>> {
    return {
      refused: this.#bound?.takeRefused() ?? [],
      rules: this.#backend.tables?.takeRuleCounts?.() ?? [],
    };
  }

  get exposed(): readonly TableName[] {
    return this.#backend.tables?.exposed ?? [];
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
    return this.#backend.tables?.stage?.(found) ? () => this.#hook() : undefined;
  }

  #hook(): Batch | undefined {
    this.#backend.tables?.hook?.();
    this.#claimOfEnvironment();
    return this.take();
  }

  async miscounts(kernel: Kernel): Promise<readonly Miscount[] | undefined> {
    const isWaiting = this.#changes.isAny || this.#shared.isAnyChanged;
    if (isWaiting || this.#batch !== 'settled') return undefined;
    return this.#backend.tables?.miscounts?.(kernel);
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
    this.#ofEnvironment = this.#backend.ofEnvironment(this.#environment);
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
    const begun = (found: T['found']): void => {
      this.#comparison = new Comparison(found as FoundOf<T>);
    };
    const found = await this.#backend.read(kernel, pause, begun);
    if (this.#comparison?.found !== found) begun(found);
    const comparison = this.#current(this.#comparison);
    const { allowsBatches = false, generation } = comparison.found;
    isStale ||= this.#batches !== batches || this.#batch !== 'settled' || this.pendingBytes > 0;
    return {
      generation,
      allowsBatches,
      isStale: isStale && !allowsBatches,
      adopt: (next) => comparison.found.adopt(next),
      stage: () => this.#stage(comparison),
      repair: (slice) => this.#begin(comparison, slice),
      restore: async (targets, slice) => {
        await this.resume(targets, slice);
        return this.#begin(comparison, slice);
      },
      drop: () => this.#drop(comparison),
    };
  }

  async #begin(comparison: Comparison<T>, pause: Pause): Promise<Repair> {
    const { found } = this.#current(comparison);
    const fixed = this.#fixed();
    const repair = await this.#backend.repairFixed(found, this.#writer, fixed, pause);
    if (repair.isAnew === true) {
      this.#shared.startAnew();
      this.#changes.startAnew();
    }
    this.#isIndivisible = repair.isIndivisible === true;
    comparison.prune = repair.prune;
    comparison.isBegun = true;
    const drift = { ...repair.drift };
    for (const object of this.#ofEnvironment) {
      this.#repairShared(comparison, { owner: '', object }, drift);
    }
    return {
      drift,
      compare: (desired) => this.#compare(comparison, desired),
      finish: (slice) => this.#finish(comparison, slice),
    };
  }

  #compare(comparison: Comparison<T>, desired: Forwarding): Drift {
    const { found, madeLast } = this.#current(comparison);
    this.#isRepairWaiting = true;
    const drift = noCounts();
    const { key: owner } = desired;
    const { frontends, shared } = this.#backend.objects(desired, this.#environment);
    for (const object of shared) {
      if (object.isMadeLast === true) madeLast.push({ owner, object });
      else this.#repairShared(comparison, { owner, object }, drift);
    }
    for (const frontend of frontends) {
      this.#pendingBytes += this.#frontendBytes;
      if (this.#changes.has(frontend.id) || found.touched.has(frontend.id)) continue;
      if (!this.#changes.holds(owner, frontend)) continue;
      const before = found.take(frontend);
      this.#writer.frontend({ from: 'kernel', owner, before, after: frontend, drift });
    }
    return drift;
  }

  #repairShared(
    { compared, found }: Comparison<T>,
    { owner, object }: Needed<T['shared']>,
    drift: Counts,
  ): void {
    const { id } = object;
    if (compared.has(id) || found.touched.has(id) || this.#shared.changes(id)) return;
    if (object.isDeletedLater === true) compared.add(id);
    this.#shared.revive(id);
    const fault = found.faultOf(object);
    if (fault === undefined) return;
    // Others that need it need not compare it again.
    found.touched.add(id);
    this.#pendingBytes += object.bytes;
    this.#writer.add(object, owner, fault === 'wrong');
    drift[fault] += 1;
  }

  async #finish(comparison: Comparison<T>, pause: Pause): Promise<Drift> {
    const { found, uncounted: drift } = this.#current(comparison);
    this.#isRepairWaiting = true;
    await inTurns(found.rest(), pause, ([id, held]) => {
      if (found.touched.has(id) || this.#changes.has(id)) return;
      const after = undefined;
      this.#writer.frontend({ from: 'kernel', owner: '', before: held, after, drift });
    });
    await this.#pruneShared(comparison, drift, pause);
    drift.unwanted += (await comparison.prune?.(this.#writer, pause)) ?? 0;
    this.#drop(comparison);
    return drift;
  }

  #drop(comparison: Comparison<T>): void {
    if (this.#comparison !== comparison) return;
    comparison.found.abandon?.();
    this.#comparison = undefined;
  }

  async #pruneShared(comparison: Comparison<T>, drift: Counts, pause: Pause): Promise<void> {
    const { found, madeLast } = comparison;
    await inTurns(madeLast, pause, (needed) => this.#repairShared(comparison, needed, drift));
    const present = new Set<string>();
    const unneeded: string[] = [];
    await inTurns(found.shared(), pause, ({ id, isDeletedLater }) => {
      if (isDeletedLater === true) present.add(id);
      if (this.#shared.has(id) || this.#shared.changes(id) || found.touched.has(id)) return;
      if (isDeletedLater !== true) this.#writer.delete(id, '');
      else if (this.#shared.isRetired(id)) return;
      else unneeded.push(id);
      drift.unwanted += 1;
    });
    this.#shared.retire(unneeded);
    // The deletion of what is gone would fail, and with it the whole transaction.
    this.#shared.keepRetired((id) => present.has(id) || found.touched.has(id));
  }

  #fixed(): Fixed<T> {
    return {
      shared: () => this.#shared.values(),
      isLeaving: (id) => this.#shared.changes(id) && !this.#shared.has(id),
    };
  }

  /** A planner notes what batches write in what it read last, and compares with nothing else. */
  #current(comparison: Comparison<T> | undefined): Comparison<T> {
    if (comparison === undefined || this.#comparison !== comparison) {
      throw new Error('the observation is stale: it was dropped, or another one was made');
    }
    return comparison;
  }
}

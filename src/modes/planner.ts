/**
 * The difference engine of all modes. Forwardings give the desired objects. A batch is the
 * difference between two states: a normal sync goes from what is in force to what is desired, a
 * repair from what was read to what is desired.
 */
import type { Kernel, TableName } from '../kernel/kernel.ts';
import type { Family } from '../net/address.ts';
import type { Forwarding } from '../state/types.ts';
import {
  type Backend,
  type Counts,
  type Fixed,
  noCounts,
  type Tables,
  type Types,
} from './backend.ts';
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
  type RefusedAddress,
  type RuleCount,
} from './mode.ts';
import { type FoundOf, Repair } from './repair.ts';
import { type Needed, SharedObjects } from './shared-objects.ts';

/**
 * What a frontend adds to `pendingBytes` for the work on it, even if nothing is written. Modes with
 * a `batchBytesMax` of their own count only what is written.
 */
const frontendBytes = 256;

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
  #repair: Repair<T> | undefined;

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
    const repair = this.#repair;
    if (repair?.isComparing) this.#repairShared(repair, { owner, object }, repair.uncounted);
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
    this.#confirm();
    const touched = this.#repair?.found.touched;
    for (const [id, { owner, before, after }] of this.#changes.entries()) {
      this.#writer.frontend({ from: 'belief', owner, before, after });
      touched?.add(id);
    }
    this.#writeShared(touched);
    const batch = this.#writer.batch();
    this.#startBatch();
    return batch;
  }

  #writeShared(touched: Set<string> | undefined): void {
    const { added, deleted } = this.#shared.take();
    for (const { object, owner, isThere } of added) {
      // An unused object is not repaired, so others may have changed it.
      const mayBeThere =
        isThere || (this.#repair?.found.faultOf(object) ?? 'missing') !== 'missing';
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
    this.#writer = this.#backend.writer();
  }

  /** What was recorded so far is in force: the state before it is not needed any more. */
  readonly #confirm = (): void => {
    this.#shared.confirm();
    this.#backend.late?.confirm();
  };

  get deferred(): boolean {
    return this.#shared.isAnyRetired || this.#backend.late?.isAny === true;
  }

  takeDeferred(kernel: Kernel): Promise<Batch | undefined> | Batch | undefined {
    this.#confirm();
    const writer = this.#backend.writer();
    const ids = this.#shared.due();
    for (const id of ids) writer.delete(id, '');
    const finish = (late: Iterable<string>): Batch | undefined => {
      for (const id of [...ids, ...late]) this.#repair?.found.touched.add(id);
      const batch = writer.batch();
      return batch && { ...batch, committed: this.#confirm };
    };
    const late = this.#backend.late?.write(kernel, writer) ?? [];
    return late instanceof Promise ? late.then(finish) : finish(late);
  }

  get sweepDue(): boolean {
    return this.#backend.tables?.sweep?.isDue === true;
  }

  async takeSweep(kernel: Kernel): Promise<Batch | undefined> {
    const writer = this.#backend.writer();
    await this.#backend.tables?.sweep?.write(kernel, writer);
    return writer.batch();
  }

  takeRefused(): readonly RefusedAddress[] {
    return this.#bound?.takeRefused() ?? [];
  }

  takeRuleCounts(): readonly RuleCount[] {
    return this.#backend.tables?.takeRuleCounts?.() ?? [];
  }

  get exposed(): readonly TableName[] {
    return this.#backend.tables?.exposed ?? [];
  }

  async prepare(...of: Parameters<Tables<T>['prepare']>): Promise<void> {
    await this.#backend.tables?.prepare(...of);
  }

  stage(found: Observation): boolean {
    return this.#backend.tables?.stage?.(this.#own(found).found) ?? false;
  }

  hook(): void {
    this.#backend.tables?.hook?.();
    this.#claimOfEnvironment();
  }

  async miscounts(kernel: Kernel): Promise<readonly Miscount[] | undefined> {
    return this.#backend.tables?.miscounts?.(kernel);
  }

  async reset(inForce: Iterable<Forwarding>, pause: Pause): Promise<void> {
    this.#backend.late?.rollback();
    this.#backend.tally?.clear();
    this.#changes.reset();
    this.#shared.reset();
    this.#bound?.clear();
    if (this.#repair !== undefined) this.#repair.isComparing = false;
    this.#startBatch();
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
    const begun = (found: T['found']): void => {
      this.#repair = new Repair(found as FoundOf<T>);
    };
    const found = await this.#backend.read(kernel, pause, begun);
    if (this.#repair?.found !== found) begun(found);
    return found;
  }

  async repairFixed(given: Observation, pause: Pause): Promise<Drift> {
    const own = this.#own(given);
    const { found } = own;
    const fixed = this.#fixed();
    const repair = await this.#backend.repairFixed(found, this.#writer, fixed, pause);
    if (repair.isAnew === true) {
      this.#shared.startAnew();
      this.#changes.startAnew();
    }
    this.#isIndivisible = repair.isIndivisible === true;
    own.prune = repair.prune;
    own.isComparing = true;
    const drift = { ...repair.drift };
    for (const object of this.#ofEnvironment) this.#repairShared(own, { owner: '', object }, drift);
    return drift;
  }

  repair(given: Observation, wanted: Forwarding): Drift {
    const repair = this.#own(given);
    const { found, madeLast } = repair;
    const drift = noCounts();
    const { key: owner } = wanted;
    const { frontends, shared } = this.#backend.objects(wanted, this.#environment);
    for (const object of shared) {
      if (object.isMadeLast === true) madeLast.push({ owner, object });
      else this.#repairShared(repair, { owner, object }, drift);
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
    { compared, found }: Repair<T>,
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

  async prune(given: Observation, pause: Pause): Promise<Drift> {
    const repair = this.#own(given);
    const { found, uncounted: drift } = repair;
    await inTurns(found.rest(), pause, ([id, held]) => {
      if (found.touched.has(id) || this.#changes.has(id)) return;
      const after = undefined;
      this.#writer.frontend({ from: 'kernel', owner: '', before: held, after, drift });
    });
    await this.#pruneShared(repair, drift, pause);
    drift.unwanted += (await repair.prune?.(this.#writer, pause)) ?? 0;
    this.abandon(found);
    return drift;
  }

  abandon(given: Observation): void {
    if (this.#repair?.found !== given) return;
    this.#repair.found.abandon?.();
    this.#repair = undefined;
  }

  async #pruneShared(repair: Repair<T>, drift: Counts, pause: Pause): Promise<void> {
    const { found, madeLast } = repair;
    await inTurns(madeLast, pause, (needed) => this.#repairShared(repair, needed, drift));
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

  /** The repair that compares with what this planner read last. */
  #own(found: Observation): Repair<T> {
    if (this.#repair?.found !== found) throw new Error('nobody compares with this any longer');
    return this.#repair;
  }
}

/** Applies the batches of one family, at most one at a time. */
import { asKernelFailure } from '../kernel/failures.ts';
import type { ApplyResult, KernelFailure } from '../kernel/kernel.ts';
import type { Batch } from '../modes/mode.ts';
import type { Planner } from '../modes/planner.ts';
import type { Forwarding } from '../state/types.ts';
import { BatchSize } from './batch-size.ts';
import type { Cause } from './cause.ts';
import type { Purpose } from './events.ts';
import type { Parts } from './parts.ts';
import type { Quarantine } from './quarantine.ts';
import type { Tracked } from './tracked.ts';

/** The change of one Forwarding. */
export interface Change {
  readonly record: Tracked;
  /** Undefined = it is no longer desired. */
  readonly next: Forwarding | undefined;
  /** What came from outside, where that is known. */
  readonly cause: Cause | undefined;
}

interface PlannedChange extends Change {
  /** What was desired then; undefined: `next` is something else, until it is planned again. */
  readonly desired: Forwarding | undefined;
}

/**
 * Changes that come into force together, in the order in which they were planned, so that followers
 * never hear of two owners of a frontend.
 */
type PlannedChanges = readonly PlannedChange[];

/** A batch that the kernel refused, or a Forwarding that could not be translated. */
export interface Failure {
  /** All that was planned and is not in force: the refused batch and what was planned since. */
  readonly lost: readonly Change[];
  readonly culprits: readonly string[];
  readonly failures: readonly KernelFailure[];
  /** Parts of the batch are in force. Only reading the kernel shows which. */
  readonly partly: boolean;
}

/** A change that is in force now. It may be none: a repair publishes everything. */
export interface AppliedChange extends Change {
  /** Undefined = there was none, or none is known. */
  readonly previous: Forwarding | undefined;
}

/** A batch in flight, or changes for which nothing has to be written. */
interface Flight {
  readonly outcome: Promise<Failure | undefined>;
  /** It was refused, and `#landed` has not said so yet. */
  isRefused: boolean;
}

/** After an unexplained failure batches shrink by this factor, to find the culprit or to fit. */
const shrinkFactor = 16;

/** How `drain` plans. */
interface Plan {
  /** Plans the Forwarding that was yielded last. */
  plan(record: Tracked): void;
  /**
   * Whether it is part of a large change. Such a one is planned when nothing is in flight, and
   * when nothing small waits, so that a small change that comes in the meantime waits for one batch
   * of large ones, and not for its own to be full. Default: no.
   */
  isLarge?(): boolean;
}

/**
 * Within one `drain`, planning continues while a batch is in flight: that hides the cost of encoding
 * in a bulk load. At other times, changes that come during a flight are collected for the next
 * batch.
 */
export class Applier {
  readonly #parts: Parts;
  readonly #planner: Planner;
  readonly #quarantine: Quarantine;
  readonly #applied: (change: AppliedChange) => void;
  #planned: PlannedChange[] = [];
  #flight: Flight | undefined;
  readonly #largestBytes: number;
  /** Largest batches because of failures. */
  #bytesMax: number;
  readonly #size: BatchSize;
  #stopping = false;
  #spentMs = 0;

  /** `applied` is called for each change that the kernel has acknowledged. */
  constructor(parts: Parts, quarantine: Quarantine, applied: (change: AppliedChange) => void) {
    this.#parts = parts;
    this.#planner = parts.planner;
    this.#quarantine = quarantine;
    this.#applied = applied;
    this.#largestBytes = parts.planner.batchBytesMax ?? parts.settings.batchBytesMax;
    this.#bytesMax = this.#largestBytes;
    this.#size = new BatchSize(this.#largestBytes);
  }

  /** Forgets what was planned, because a repair plans everything. */
  forget(): void {
    this.#planned = [];
  }

  /** What all batches have cost: the time of this process for them, and of the kernel. */
  get spentMs(): number {
    return this.#spentMs;
  }

  get stopping(): boolean {
    return this.#stopping;
  }

  /** Lets `drain` return after the batch in flight. */
  stop(): void {
    this.#stopping = true;
  }

  /** Records a change that the planner has. */
  note({ record, next, cause }: Change): void {
    this.#parts.tracked.setPlanned(record, next);
    const desired = record.isDirty ? undefined : record.desired;
    this.#planned.push({ record, next, desired, cause });
  }

  /**
   * Plans each Forwarding, in slices, and applies what was planned in batches. Resolves when all is
   * in force, or with the first failure. It plans nothing upon a batch that was refused.
   */
  async drain(
    records: Iterable<Tracked>,
    { isLarge, plan }: Plan,
    purpose: Purpose,
  ): Promise<Failure | undefined> {
    const { clock, newPacer } = this.#parts;
    const pacer = newPacer();
    let holdsSmall = false;
    for (const record of records) {
      const large = isLarge?.() === true;
      if (large && (holdsSmall || this.#flight !== undefined)) {
        const failure = await this.finish(purpose);
        if (failure !== undefined || this.#stopping) return failure;
        holdsSmall = false;
        continue;
      }
      const startedMs = clock.now();
      try {
        plan(record);
      } catch (error) {
        return this.#untranslatable(record, error as Error);
      }
      this.#spentMs += clock.now() - startedMs;
      holdsSmall ||= !large;
      if (this.#isFull) {
        const failure = (await this.#landed()) ?? this.#send(purpose);
        if (failure !== undefined) return failure;
        holdsSmall = false;
      }
      if (pacer.due) await pacer.rest();
      if (this.#stopping || this.#flight?.isRefused) return this.#landed();
    }
    return this.finish(purpose);
  }

  /** An indivisible batch is divided only after it has failed. */
  get #isFull(): boolean {
    const { pendingBytes, indivisible } = this.#planner;
    if (indivisible) return this.#isShrunk && pendingBytes >= this.#bytesMax;
    // What needs no write is not in the batch of a culprit that is looked for.
    if (this.#isShrunk && pendingBytes === 0) return true;
    const isPaced = this.#planner.batchBytesMax === undefined;
    const bytesMax = isPaced ? Math.min(this.#bytesMax, this.#size.bytesMax) : this.#bytesMax;
    return pendingBytes >= bytesMax;
  }

  get #isShrunk(): boolean {
    return this.#bytesMax < this.#largestBytes;
  }

  /** Applies what waits; resolves when it is in force. */
  async finish(purpose: Purpose): Promise<Failure | undefined> {
    const failure = (await this.#landed()) ?? this.#send(purpose);
    return failure ?? this.#landed();
  }

  /** Applies a batch that holds no changes. Nothing else may be in flight. */
  async apply(batch: Batch, purpose: Purpose): Promise<Failure | undefined> {
    this.#launch(batch, [], purpose, 0);
    return this.#landed();
  }

  /** Waits for the batch in flight. Its failure includes all that was planned since. */
  async #landed(): Promise<Failure | undefined> {
    const failure = await this.#flight?.outcome;
    this.#flight = undefined;
    if (failure === undefined) return undefined;
    const lost = [...failure.lost, ...this.#planned];
    this.#planned = [];
    return { ...failure, lost };
  }

  /** Sends what waits. A batch that can't be encoded counts as refused. */
  #send(purpose: Purpose): Failure | undefined {
    const changes = this.#planned;
    this.#planned = [];
    const { pendingBytes } = this.#planner;
    const startedMs = this.#parts.clock.now();
    try {
      const batch = this.#planner.take();
      this.#spentMs += this.#parts.clock.now() - startedMs;
      if (batch !== undefined) this.#launch(batch, changes, purpose, pendingBytes);
      else this.#flight = { outcome: this.#putInForce(changes), isRefused: false };
      return undefined;
    } catch (error) {
      return this.#blame(new Set(), changes, [asKernelFailure(error as Error)]);
    }
  }

  #launch(batch: Batch, changes: PlannedChanges, purpose: Purpose, pendingBytes: number): void {
    const outcome = this.#fly(batch, changes, purpose, pendingBytes);
    this.#flight = { outcome, isRefused: false };
  }

  async #fly(
    batch: Batch,
    changes: PlannedChanges,
    purpose: Purpose,
    pendingBytes: number,
  ): Promise<Failure | undefined> {
    const { kernel, clock, ruleset } = this.#parts;
    const encodedMs = clock.now();
    let committedMs = encodedMs;
    const result = await ruleset.commit(async () => {
      const startedMs = clock.now();
      const answer = await (batch.apply?.(kernel) ?? kernel.apply(batch.ops)).catch(asFailed);
      if (answer.kind === 'failed') return answer;
      batch.committed(answer);
      committedMs = clock.now();
      this.#spentMs += committedMs - startedMs;
      this.#bytesMax = Math.min(this.#largestBytes, this.#bytesMax * 2);
      this.#size.committed(pendingBytes, committedMs - startedMs);
      // A part of the commit: who then reads the kernel compares it with what is in force.
      await this.#putInForce(changes);
      return answer;
    });
    if (result.kind === 'failed') {
      batch.refused();
      this.#flight!.isRefused = true;
      return this.#refused(batch, changes, result);
    }
    const { oldest, triggerTimesMs } = causeOf(changes);
    this.#parts.observer({
      kind: 'committed',
      family: this.#planner.family,
      purpose,
      forwardings: changes.length,
      writes: batch.writes,
      bytes: batch.ops.length,
      applyMs: committedMs - encodedMs,
      stages: oldest && { ...oldest, encodedMs, committedMs },
      triggerTimesMs,
    });
    return undefined;
  }

  #refused(
    batch: Batch,
    changes: PlannedChanges,
    { failures, partly }: Extract<ApplyResult, { kind: 'failed' }>,
  ): Failure {
    const culprits = new Set(failures.flatMap((failure) => batch.culprits(failure)));
    if (failures.some(deniesAll)) return { lost: changes, culprits: [], failures, partly };
    return { ...this.#blame(culprits, changes, failures), partly };
  }

  /**
   * Finds the culprits. When there are none, batches shrink until a refused one holds one change.
   */
  #blame(
    culprits: Set<string>,
    changes: PlannedChanges,
    failures: readonly KernelFailure[],
  ): Failure {
    if (culprits.size === 0) {
      const shrunk = this.#isShrunk;
      const [first] = changes;
      const isOne = changes.every(({ record }) => record === first!.record);
      const key = isOne ? first?.record.key : undefined;
      const isKnown = !failures.some(({ isLost }) => isLost);
      if (key !== undefined && isKnown && (shrunk || this.#quarantine.get(key) !== undefined))
        culprits.add(key);
      this.#bytesMax = Math.max(1, Math.floor(this.#bytesMax / shrinkFactor));
    }
    return { lost: changes, culprits: [...culprits], failures, partly: false };
  }

  async #untranslatable({ key }: Tracked, error: Error): Promise<Failure> {
    const failure = await this.#landed();
    const lost = failure?.lost ?? this.#planned;
    this.#planned = [];
    const own = asKernelFailure(error);
    return {
      lost,
      culprits: [...(failure?.culprits ?? []), key],
      failures: [...(failure?.failures ?? []), own],
      partly: failure?.partly ?? false,
    };
  }

  async #putInForce(changes: PlannedChanges): Promise<undefined> {
    const { clock, newPacer, tracked } = this.#parts;
    const pacer = newPacer();
    let startedMs = clock.now();
    for (const { record, next, desired, cause } of changes) {
      const previous = tracked.setInForce(record, next);
      tracked.acknowledged(record, desired);
      this.#applied({ record, previous, next, cause });
      if (!pacer.due) continue;
      this.#spentMs += clock.now() - startedMs;
      await pacer.rest();
      startedMs = clock.now();
    }
    this.#spentMs += clock.now() - startedMs;
  }
}

/** The times of the change that came first, and all trigger times. */
function causeOf(changes: Iterable<Change>) {
  let oldest: Omit<Cause, 'triggerTimesMs'> | undefined;
  const all: number[] = [];
  for (const { cause } of changes) {
    if (cause === undefined) continue;
    const { receivedMs, resolvedMs, triggerTimesMs } = cause;
    if (oldest === undefined || receivedMs < oldest.receivedMs) oldest = { receivedMs, resolvedMs };
    for (const ms of triggerTimesMs) all.push(ms);
  }
  return { oldest, triggerTimesMs: all };
}

/** The result for an `apply` that was rejected: whether the batch is in force is not known. */
function asFailed(error: Error & { code?: string }): ApplyResult {
  return { kind: 'failed', failures: [asKernelFailure(error)], partly: false };
}

/** A failure without a known culprit. */
export function unknownFailure(error: Error): Failure {
  return { lost: [], culprits: [], failures: [asKernelFailure(error)], partly: false };
}

/** This process may not change the kernel, so that no Forwarding is to blame. */
function deniesAll({ code, isOfSocket = false }: KernelFailure): boolean {
  return !isOfSocket && (code === 'EPERM' || code === 'EACCES');
}

/**
 * Codes of nf_tables (ENFILE: a set has a size, which we give to none that we fill), then of IPVS
 * (ESRCH: no such virtual service) and of addresses.
 */
const contradictions: ReadonlySet<string> = new Set([
  ...['ENOENT', 'EEXIST', 'ERESTART', 'ENFILE'],
  ...['ESRCH', 'EADDRNOTAVAIL', 'ENODEV'],
]);

/** Whether the kernel is not as we think: an object is missing, or exists already, or is full. */
export function contradictsBelief({ code, isOfSocket = false }: KernelFailure): boolean {
  return !isOfSocket && contradictions.has(code);
}

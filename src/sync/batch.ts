/** One family's line to the kernel: at most one batch in flight, and the record of what is in force. */
import type { ApplyResult, Kernel, KernelFailure } from '../kernel/kernel.ts';
import type { Batch, Planner } from '../modes/mode.ts';
import type { Forwarding } from '../state/types.ts';
import { type Cause, joined } from './cause.ts';
import { type Clock, Pacer } from './clock.ts';
import type { Observer, Purpose } from './events.ts';
import type { Ruleset } from './ruleset.ts';

export interface Change {
  readonly next: Forwarding | undefined;
  readonly cause: Cause | undefined;
}

/** A batch that the kernel refused, or a Forwarding that could not be translated. */
export interface Failure {
  /** All that was planned and is not in force: the refused batch and what was planned since. */
  readonly lost: ReadonlyMap<string, Change>;
  readonly culprits: readonly string[];
  readonly failures: readonly KernelFailure[];
  /** Other parts of the batch are in force: only reading the kernel tells which. */
  readonly partly: boolean;
}

export interface ApplierOptions {
  readonly planner: Planner;
  readonly kernel: Kernel;
  readonly clock: Clock;
  readonly ruleset: Ruleset;
  readonly observer: Observer;
  /** A batch is cut when it holds this much. */
  readonly batchBytesMax: number;
  /** The event loop is released after this much planning. */
  readonly sliceMs: number;
  /** Whether this Forwarding has failed before. */
  readonly suspected: (key: string) => boolean;
  /** A change is in force now, where `previous` was (undefined = nothing, or nothing known). */
  readonly committed: (key: string, change: Change, previous: Forwarding | undefined) => void;
}

/** Changes that nothing has to be written for are a flight, too. */
interface Flight {
  readonly changes: ReadonlyMap<string, Change>;
  readonly outcome: Promise<Failure | undefined>;
}

/** After an unexplained failure batches shrink by this factor, to find the culprit or to fit. */
const shrinkFactor = 16;

/**
 * A batch that the kernel was longer busy with makes the next ones smaller: others can't commit
 * meanwhile, and our own next change waits too. Far below the quarter of a second that nobody
 * should have to wait, because one batch may be more work than another of its size.
 */
const commitMs = 80;

/** Batches are not cut smaller than this for time's sake: each has its own cost. */
const pacedBytesMin = 64 * 1024;

/**
 * Planning goes on while a batch is in flight, but only within one `drain`: that hides the cost
 * of encoding in a bulk load, while at all other times what changes during a flight coalesces.
 */
export class Applier {
  readonly #options: ApplierOptions;
  readonly #planner: Planner;
  #inForce = new Map<string, Forwarding>();
  #planned = new Map<string, Change>();
  #flight: Flight | undefined;
  readonly #largestBytes: number;
  /** Where a batch is cut because of failures, and because of the time that the last ones took. */
  #bytesMax: number;
  #pacedBytesMax: number;
  #stopping = false;
  #batches = 0;

  constructor(options: ApplierOptions) {
    this.#options = options;
    this.#planner = options.planner;
    this.#largestBytes = options.planner.batchBytesMax ?? options.batchBytesMax;
    this.#bytesMax = this.#largestBytes;
    this.#pacedBytesMax = this.#largestBytes;
  }

  /** What the kernel has acknowledged. */
  get inForce(): ReadonlyMap<string, Forwarding> {
    return this.#inForce;
  }

  /** Batches handed to the kernel so far. */
  get batches(): number {
    return this.#batches;
  }

  /** Nothing is in flight and nothing waits to be taken. */
  get idle(): boolean {
    return this.#flight === undefined && this.#planner.pendingBytes === 0;
  }

  /** Forgets what is in force, because it is going to be read from the kernel. */
  forget(): void {
    this.#inForce = new Map();
    this.#planned = new Map();
  }

  get stopping(): boolean {
    return this.#stopping;
  }

  /** Lets `drain` return after the batch in flight. */
  stop(): void {
    this.#stopping = true;
  }

  /** What will be in force once all that was planned is. */
  expected(key: string): Forwarding | undefined {
    const change = this.#planned.get(key) ?? this.#flight?.changes.get(key);
    return change ? change.next : this.#inForce.get(key);
  }

  /** Records that the planner has been told of this change; the later, the later in force. */
  note(key: string, { next, cause }: Change): void {
    const earlier = this.#planned.get(key);
    // A frontend that changed hands was given up by one Forwarding before it was taken by another.
    if (earlier !== undefined) this.#planned.delete(key);
    this.#planned.set(key, { next, cause: joined(earlier?.cause, cause) });
  }

  /**
   * Calls `plan` for each key, in slices, and applies what it plans in batches. Resolves when all
   * is in force, or with the first failure; the planner must be reset after that.
   */
  async drain(
    keys: Iterable<string>,
    plan: (key: string) => void,
    purpose: Purpose,
  ): Promise<Failure | undefined> {
    const pacer = new Pacer(this.#options.clock, this.#options.sliceMs);
    for (const key of keys) {
      try {
        plan(key);
      } catch (error) {
        return this.#untranslatable(key, error as Error);
      }
      if (this.#isFull) {
        const failure = (await this.#landed()) ?? this.#send(purpose);
        if (failure !== undefined) return failure;
      }
      if (pacer.spent) await pacer.rest();
      if (this.#stopping) return this.#landed();
    }
    return this.finish(purpose);
  }

  /** A batch that must be whole is cut only after it failed, whatever its size. */
  get #isFull(): boolean {
    const { pendingBytes, indivisible = false } = this.#planner;
    if (indivisible) return this.#isShrunk && pendingBytes >= this.#bytesMax;
    const isPaced = this.#planner.batchBytesMax === undefined;
    const bytesMax = isPaced ? Math.min(this.#bytesMax, this.#pacedBytesMax) : this.#bytesMax;
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
    this.#launch(batch, new Map(), purpose);
    return this.#landed();
  }

  /** The batch in flight, if any, and its failure together with all that was planned since. */
  async #landed(): Promise<Failure | undefined> {
    const failure = await this.#flight?.outcome;
    this.#flight = undefined;
    if (failure === undefined) return undefined;
    const lost = new Map([...failure.lost, ...this.#planned]);
    this.#planned = new Map();
    return { ...failure, lost };
  }

  /** Puts what waits in flight. A batch that can't be encoded is as good as refused. */
  #send(purpose: Purpose): Failure | undefined {
    const changes = this.#planned;
    this.#planned = new Map();
    try {
      const batch = this.#planner.take();
      if (batch !== undefined) this.#launch(batch, changes, purpose);
      else this.#flight = { changes, outcome: this.#putInForce(changes) };
      return undefined;
    } catch (error) {
      return this.#blame(new Set(), changes, [asKernelFailure(error as Error)]);
    }
  }

  #launch(batch: Batch, changes: ReadonlyMap<string, Change>, purpose: Purpose): void {
    this.#flight = { changes, outcome: this.#fly(batch, changes, purpose) };
  }

  async #fly(
    batch: Batch,
    changes: ReadonlyMap<string, Change>,
    purpose: Purpose,
  ): Promise<Failure | undefined> {
    const { kernel, clock, ruleset } = this.#options;
    const encodedMs = clock.now();
    this.#batches += 1;
    let startedMs = encodedMs;
    const result = await ruleset.commit(
      batch.transactions ?? 1,
      () => {
        startedMs = clock.now();
        return (batch.apply?.(kernel) ?? kernel.apply(batch.ops)).catch(asFailed);
      },
      ({ kind }) => kind === 'applied',
    );
    if (result.kind === 'failed') return this.#refused(batch, changes, result);
    batch.committed?.(result);
    this.#bytesMax = Math.min(this.#largestBytes, this.#bytesMax * 2);
    this.#pace(batch.ops.length, clock.now() - startedMs);
    const committedMs = clock.now();
    await this.#putInForce(changes);
    const causes = [...changes.values()].flatMap(({ cause }) => (cause ? [cause] : []));
    this.#options.observer({
      kind: 'committed',
      family: this.#planner.family,
      purpose,
      forwardings: changes.size,
      writes: batch.writes,
      bytes: batch.ops.length,
      applyMs: committedMs - encodedMs,
      stages: stagesOf(causes, encodedMs, committedMs),
      triggerTimesMs: causes.flatMap(({ triggerTimesMs }) => triggerTimesMs),
    });
    return undefined;
  }

  /** Next time as much as the kernel takes in `commitMs`, coming from what it took in `tookMs`. */
  #pace(bytes: number, tookMs: number): void {
    const fitting = tookMs > commitMs ? (bytes * commitMs) / tookMs : 2 * this.#pacedBytesMax;
    const bytesMax = Math.max(pacedBytesMin, fitting);
    this.#pacedBytesMax = Math.min(this.#largestBytes, bytesMax);
  }

  #refused(
    batch: Batch,
    changes: ReadonlyMap<string, Change>,
    { failures, partly }: Extract<ApplyResult, { kind: 'failed' }>,
  ): Failure {
    const culprits = new Set(failures.flatMap((failure) => batch.culprits(failure)));
    if (failures.some(deniesAll)) return { lost: changes, culprits: [], failures, partly };
    return { ...this.#blame(culprits, changes, failures), partly };
  }

  /** Without a culprit batches shrink, until one that fails holds a single change. */
  #blame(
    culprits: Set<string>,
    changes: ReadonlyMap<string, Change>,
    failures: readonly KernelFailure[],
  ): Failure {
    if (culprits.size === 0) {
      const { suspected } = this.#options;
      const shrunk = this.#isShrunk;
      const [only] = changes.keys();
      const alone = changes.size === 1 && only !== undefined;
      if (alone && (shrunk || suspected(only))) culprits.add(only);
      this.#bytesMax = Math.max(1, Math.floor(this.#bytesMax / shrinkFactor));
    }
    return { lost: changes, culprits: [...culprits], failures, partly: false };
  }

  async #untranslatable(key: string, error: Error): Promise<Failure> {
    const failure = await this.#landed();
    const lost = failure?.lost ?? this.#planned;
    this.#planned = new Map();
    const own = asKernelFailure(error);
    return {
      lost,
      culprits: [...(failure?.culprits ?? []), key],
      failures: [...(failure?.failures ?? []), own],
      partly: failure?.partly ?? false,
    };
  }

  async #putInForce(changes: ReadonlyMap<string, Change>): Promise<undefined> {
    const pacer = new Pacer(this.#options.clock, this.#options.sliceMs);
    for (const [key, change] of changes) {
      this.#note(key, change);
      if (pacer.spent) await pacer.rest();
    }
  }

  #note(key: string, change: Change): void {
    const previous = this.#inForce.get(key);
    if (change.next === undefined) this.#inForce.delete(key);
    else this.#inForce.set(key, change.next);
    this.#options.committed(key, change, previous);
  }
}

function stagesOf(causes: readonly Cause[], encodedMs: number, committedMs: number) {
  let oldest = causes[0];
  for (const cause of causes) if (cause.receivedMs < oldest!.receivedMs) oldest = cause;
  if (oldest === undefined) return undefined;
  const { receivedMs, resolvedMs } = oldest;
  return { receivedMs, resolvedMs, encodedMs, committedMs };
}

/** A rejected `apply` as a result: nothing is known about the batch but the reason. */
function asFailed(error: Error & { code?: string }): ApplyResult {
  return { kind: 'failed', failures: [asKernelFailure(error)], partly: false };
}

/** An exception as a failure that names no op. */
export function asKernelFailure(error: Error & { code?: string; isHeld?: boolean }): KernelFailure {
  return {
    ...(error.isHeld === true ? { isHeld: true } : {}),
    op: undefined,
    entry: undefined,
    code: error.code ?? error.name,
    message: error.message,
  };
}

/** A failure that nobody can be blamed for. */
export function unknownFailure(error: Error): Failure {
  return { lost: new Map(), culprits: [], failures: [asKernelFailure(error)], partly: false };
}

/** This process may not change the kernel: nobody's fault. */
function deniesAll({ code, isOfSocket = false }: KernelFailure): boolean {
  return !isOfSocket && (code === 'EPERM' || code === 'EACCES');
}

/** Of nf_tables, then of IPVS (ESRCH: no such virtual service) and of addresses. */
const contradictions: ReadonlySet<string> = new Set([
  'ENOENT',
  'EEXIST',
  'ERESTART',
  'ESRCH',
  'EADDRNOTAVAIL',
  'ENODEV',
]);

/** The kernel is not what we believe: an object is missing, or is there already. */
export function contradictsBelief({ code, isOfSocket = false }: KernelFailure): boolean {
  return !isOfSocket && contradictions.has(code);
}

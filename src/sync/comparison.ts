/**
 * Compares what is in force with what the kernel holds, as an audit does, and writes nothing: by a
 * planner of its own, whose batches are never applied. Syncs continue at the same time.
 */
import type { KernelReader } from '../kernel/kernel.ts';
import { generationOfOthers } from '../kernel/steady.ts';
import type { Drift, Observation, Repair } from '../modes/mode.ts';
import type { Planner } from '../modes/planner.ts';
import type { Forwarding, ForwardingsByKey } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';
import { inTurns, Pacer, type Pause } from '../time/pacer.ts';
import { RecentResults } from '../time/recent.ts';
import { isDrift } from './events.ts';
import { RetryingReader } from './retrying-reader.ts';
import type { Ruleset } from './ruleset.ts';

interface ComparisonOptions {
  readonly planner: Pick<Planner, 'cloneEmpty'>;
  readonly inForce: ForwardingsByKey;
  readonly kernel: KernelReader;
  readonly ruleset: Ruleset;
  readonly clock: Clock;
  readonly sliceMs: number;
}

/** How the kernel differs, and the ops that an audit would write. */
export interface Difference {
  /** Undefined: it is of no Service, or of none that is there. */
  readonly forwarding: Forwarding | undefined;
  readonly drift: Drift;
  readonly ops: readonly Uint8Array[];
}

export interface Comparison {
  /** Service ports that were compared. */
  readonly compared: number;
  /** Service ports that changed during the comparison. */
  readonly leftOut: number;
  readonly differences: readonly Difference[];
}

/**
 * A result that took t to make is used again for `restFactor * t`. While the kernel is read, our
 * commits wait for a dump that one of them has interrupted, so that changes wait longer.
 */
const restFactor = 20;

/**
 * After a comparison that took t, the next one waits for `waitFactor * t` where the last result
 * cannot be used again: it has found differences, others commit, or nothing shows what others
 * change.
 */
const waitFactor = 4;
/** The longest wait: who asks wants to know what is there now. */
const waitMostMs = 5000;

/**
 * Comparisons of one family, for those who ask again and again. What has found nothing serves for
 * some time, unless others have committed since then: then the kernel is read again, after a wait.
 */
export class Comparisons {
  readonly #options: ComparisonOptions;
  readonly #hasGeneration: boolean;
  /** By `generationOfOthers`. */
  readonly #clean: RecentResults<Comparison | undefined>;
  /** `Clock.now` before which the kernel is not read again. */
  #waitUntilMs = Number.NEGATIVE_INFINITY;

  /** `hasGeneration`: the generation of the ruleset shows all that others may change. */
  constructor(options: ComparisonOptions, hasGeneration: boolean) {
    this.#options = options;
    this.#hasGeneration = hasGeneration;
    const isKept = (found: Comparison | undefined) => found?.differences.length === 0;
    this.#clean = new RecentResults({ clock: options.clock, restFactor, isKept });
  }

  /** See `compare`. */
  async compare(): Promise<Comparison | undefined> {
    if (!this.#hasGeneration) return this.#read();
    const others = await generationOfOthers(this.#options.kernel);
    return this.#clean.of(String(others), () => this.#read());
  }

  async #read(): Promise<Comparison | undefined> {
    const { clock } = this.#options;
    const waitMs = this.#waitUntilMs - clock.now();
    if (waitMs > 0) await new Promise<void>((resolve) => void clock.after(waitMs, resolve));
    const startedMs = clock.now();
    try {
      return await compare(this.#options);
    } finally {
      const endedMs = clock.now();
      this.#waitUntilMs = endedMs + Math.min(waitMostMs, waitFactor * (endedMs - startedMs));
    }
  }
}

interface Reading {
  readonly planner: Planner;
  readonly found: Observation;
  readonly before: ReadonlyMap<string, Forwarding>;
  readonly after: ReadonlyMap<string, Forwarding>;
}

/** In a mode whose reading changes spoil, so often. */
const attemptsMax = 4;

/** Undefined: changes spoilt every attempt. Rejects with what the kernel rejects with. */
export async function compare(options: ComparisonOptions): Promise<Comparison | undefined> {
  for (let i = 0; i < attemptsMax; i += 1) {
    const reading = await read(options);
    if (reading !== undefined) return compareWith(options, reading);
  }
  return undefined;
}

async function read(options: ComparisonOptions): Promise<Reading | undefined> {
  const { clock, kernel, ruleset, sliceMs } = options;
  const planner = options.planner.cloneEmpty();
  const { pause } = new Pacer(clock, sliceMs);
  const before = await snapshot(options);
  const { commits } = kernel;
  await planner.resume(before.values(), pause);
  const found = await planner.observe(new RetryingReader(kernel, ruleset), pause);
  const after = await snapshot(options);
  const isSpoilt = !found.allowsBatches && kernel.commits !== commits;
  return isSpoilt ? undefined : { planner, found, before, after };
}

/** What is in force while no batch is on its way. */
function snapshot({ inForce, ruleset }: ComparisonOptions): Promise<Map<string, Forwarding>> {
  return ruleset.readAlone(async () => new Map(inForce));
}

async function compareWith(
  { clock, sliceMs }: ComparisonOptions,
  { planner, found, before, after }: Reading,
): Promise<Comparison> {
  const pacer = new Pacer(clock, sliceMs);
  const changed = await takeOver(planner, before, after, pacer);
  const differences: Difference[] = [];
  let compared = 0;
  const note = (forwarding: Forwarding | undefined, drift: Drift): void => {
    if (forwarding !== undefined) compared += 1;
    if (!isDrift(drift)) return;
    const batch = planner.take();
    batch?.committed({ kind: 'applied' });
    differences.push({ forwarding, drift, ops: batch === undefined ? [] : [batch.ops] });
  };
  const repair = await found.repair(pacer.pause);
  await compareEach(repair, without(after, changed), pacer.pause, note);
  return { compared, leftOut: changed.size, differences };
}

function* without(
  forwardings: ReadonlyMap<string, Forwarding>,
  keys: ReadonlySet<string>,
): Generator<Forwarding> {
  for (const [key, forwarding] of forwardings) if (!keys.has(key)) yield forwarding;
}

/**
 * Plans all that leads from what was found to `targets`. `note` receives how much
 * each differs, and what belongs to none of them; undefined = to no Service.
 */
export async function compareEach(
  repair: Repair,
  targets: Iterable<Forwarding>,
  pause: Pause,
  note: (forwarding: Forwarding | undefined, drift: Drift) => void,
): Promise<void> {
  note(undefined, repair.drift);
  await inTurns(targets, pause, (target) => note(target, repair.compare(target)));
  note(undefined, await repair.finish(pause));
}

/** Passes changes during the reading to the planner: they are left out of the comparison. */
async function takeOver(
  planner: Planner,
  before: ReadonlyMap<string, Forwarding>,
  after: ReadonlyMap<string, Forwarding>,
  pacer: Pacer,
): Promise<Set<string>> {
  const changed = new Set<string>();
  for (const key of new Set([...before.keys(), ...after.keys()])) {
    if (pacer.due) await pacer.rest();
    const [previous, next] = [before.get(key), after.get(key)];
    if (previous === next) continue;
    planner.change(previous, next);
    changed.add(key);
  }
  planner.take()?.committed({ kind: 'applied' });
  return changed;
}

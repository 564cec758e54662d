/** Tells a planner of changes in such a way that no two Forwardings ever hold the same frontend. */
import type { Pause, Planner } from '../modes/mode.ts';
import type { Forwarding } from '../state/types.ts';
import type { Applier, Change } from './batch.ts';
import type { Cause } from './cause.ts';
import { FrontendOwners, yieldedTo } from './owners.ts';

/** The change of one Forwarding. */
interface Step {
  readonly key: string;
  /** What `Applier.expected` says. */
  readonly previous: Forwarding | undefined;
  /** Undefined = it is no longer desired. */
  readonly next: Forwarding | undefined;
  readonly cause: Cause | undefined;
}

export interface HandoverOptions {
  readonly planner: Planner;
  readonly applier: Applier;
}

/**
 * Desired Forwardings never share a frontend. But they are planned one by one and in several
 * batches, so that the new owner may be planned before the old one. Then the old owner yields the
 * frontend in the same batch, and `Applier.inForce` is right after each batch, whatever fails
 * later.
 */
export class Handover {
  readonly #planner: Planner;
  readonly #applier: Applier;
  readonly #owners = new FrontendOwners();
  #yielded = false;

  constructor({ planner, applier }: HandoverOptions) {
    this.#planner = planner;
    this.#applier = applier;
  }

  plan(step: Step): void {
    const { next } = step;
    if (next !== undefined) {
      for (const holder of this.#owners.holders(next)) this.#yield(holder, next);
    }
    this.#change(step);
  }

  #yield(key: string, taker: Forwarding): void {
    const previous = this.#applier.expected(key);
    this.#yielded = true;
    if (previous === undefined) return;
    this.#change({ key, previous, next: yieldedTo(taker, previous), cause: undefined });
  }

  #change({ key, previous, next, cause }: Step): void {
    if (previous !== next) {
      this.#planner.change(previous, next);
      this.#owners.moved(previous, next);
    }
    this.#applier.note(key, { next, cause });
  }

  /** Whether a frontend was yielded since the last call. */
  takeYielded(): boolean {
    const yielded = this.#yielded;
    this.#yielded = false;
    return yielded;
  }

  /** These changes were planned and are not in force. */
  takeBack(lost: ReadonlyMap<string, Change>): void {
    for (const { next } of lost.values()) this.#owners.moved(next, undefined);
    for (const key of lost.keys()) this.#owners.moved(undefined, this.#applier.inForce.get(key));
  }

  /**
   * Starts with `targets`, which a repair is about to bring into force. A Forwarding in `refused`
   * is kept in its old form, and loses the frontends that another one desires.
   */
  async startAnew(
    targets: Map<string, Forwarding>,
    refused: Iterable<string>,
    pause: Pause,
  ): Promise<void> {
    const kept = new Set(refused);
    this.#owners.clear();
    for (const [key, target] of targets) {
      if (!kept.has(key)) this.#owners.moved(undefined, target);
      const rest = pause();
      if (rest !== undefined) await rest;
    }
    for (const key of kept) {
      const target = targets.get(key);
      if (target === undefined) continue;
      const rest = this.#owners.withoutOthers(target);
      targets.set(key, rest);
      this.#owners.moved(undefined, rest);
    }
  }
}

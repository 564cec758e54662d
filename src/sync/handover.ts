/** Plans changes in such a way that no two planned Forwardings ever have the same frontend. */
import { type FrontendKey, frontendKey } from '../state/frontend-key.ts';
import type { Forwarding } from '../state/types.ts';
import { inTurns, type Pause } from '../time/pacer.ts';
import type { Applier, Change } from './applier.ts';
import type { Parts } from './parts.ts';
import { newestOf, type Tracked } from './tracked.ts';

/**
 * Desired Forwardings never share a frontend. But they are planned one by one and in several
 * batches, so that the new owner may be planned before the old one. Then the old owner yields the
 * frontend in the same batch: when it released it later, the frontend of the new owner would be
 * deleted. So the record of what is in force is right after each batch, whatever fails later.
 */
export class Handover {
  readonly #parts: Parts;
  readonly #applier: Applier;
  #yielded = false;

  constructor(parts: Parts, applier: Applier) {
    this.#parts = parts;
    this.#applier = applier;
  }

  plan(change: Change): void {
    const { next } = change;
    const holders = next && this.#parts.tracked.holders(next);
    if (holders !== undefined) for (const holder of holders) this.#yield(holder, next!);
    this.#change(change);
  }

  #yield(record: Tracked, taker: Forwarding): void {
    this.#yielded = true;
    this.#change(yielding(record, taker));
  }

  #change(change: Change): void {
    const { next, record } = change;
    if (record.planned !== next) this.#parts.planner.change(record.planned, next);
    this.#applier.note(change);
  }

  /** Whether a frontend was yielded since the last call. */
  takeYielded(): boolean {
    const yielded = this.#yielded;
    this.#yielded = false;
    return yielded;
  }
}

/**
 * A repair keeps what is refused in its old form: takes the frontends away from it that another
 * Forwarding of `targets` has.
 */
export async function yieldRefused(
  targets: Map<Tracked, Forwarding>,
  refused: Iterable<Tracked>,
  pause: Pause,
): Promise<void> {
  const kept = new Map<Tracked, Set<FrontendKey>>();
  const holders = { TCP: newHolders(), UDP: newHolders(), SCTP: newHolders() } as const;
  for (const record of refused) {
    const target = targets.get(record);
    if (target === undefined) continue;
    const lost = new Set<FrontendKey>();
    kept.set(record, lost);
    for (const key of target.frontends.map(frontendKey)) {
      const of = holders[target.servicePort.protocol];
      if (of.has(key)) lost.add(key);
      else of.set(key, lost);
    }
  }
  if (kept.size === 0) return;
  await inTurns(targets, pause, ([record, { frontends, servicePort }]) => {
    if (kept.has(record)) return;
    const of = holders[servicePort.protocol];
    for (const key of frontends.map(frontendKey)) of.get(key)?.add(key);
  });
  for (const [record, lost] of kept) {
    targets.set(
      record,
      restricted(targets.get(record)!, (key) => !lost.has(key)),
    );
  }
}

/** By frontend, what its holder loses. */
function newHolders(): Map<FrontendKey, Set<FrontendKey>> {
  return new Map();
}

/** The holder (`TrackedForwardings.holders`) loses the frontends that `taker` has. */
export function yielding(record: Tracked, taker: Forwarding): Change {
  const taken = new Set(taker.frontends.map(frontendKey));
  const next = restricted(newestOf(record)!, (frontend) => !taken.has(frontend));
  return { record, next, cause: undefined };
}

function restricted(forwarding: Forwarding, keep: (frontend: FrontendKey) => boolean): Forwarding {
  const frontends = forwarding.frontends.filter((frontend) => keep(frontendKey(frontend)));
  return frontends.length < forwarding.frontends.length ? { ...forwarding, frontends } : forwarding;
}

/** Plans changes in such a way that no two planned Forwardings ever have the same frontend. */
import type { Planner } from '../modes/mode.ts';
import type { Protocol } from '../net/protocol.ts';
import { type FrontendKey, frontendKey } from '../state/frontend-key.ts';
import type { Forwarding } from '../state/types.ts';
import { inTurns, type Pause } from '../time/pacer.ts';
import type { Applier, Change } from './applier.ts';
import type { Cause } from './cause.ts';

/** The change of one Forwarding. */
interface Step {
  readonly key: string;
  /** What `Applier.expected` says. */
  readonly previous: Forwarding | undefined;
  /** Undefined = it is no longer desired. */
  readonly next: Forwarding | undefined;
  readonly cause: Cause | undefined;
}

interface HandoverOptions {
  readonly planner: Planner;
  readonly applier: Applier;
}

/**
 * Desired Forwardings never share a frontend. But they are planned one by one and in several
 * batches, so that the new owner may be planned before the old one. Then the old owner yields the
 * frontend in the same batch: when it released it later, the frontend of the new owner would be
 * deleted. So `Applier.inForce` is right after each batch, whatever fails later.
 */
export class Handover {
  readonly #planner: Planner;
  readonly #applier: Applier;
  readonly #planned = new PlannedFrontends();
  #yielded = false;

  constructor({ planner, applier }: HandoverOptions) {
    this.#planner = planner;
    this.#applier = applier;
  }

  plan(step: Step): void {
    const { next } = step;
    const holders = next && this.#planned.holders(next);
    if (holders !== undefined) for (const holder of holders) this.#yield(holder, next!);
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
      this.#planned.moved(previous, next);
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
    for (const { next } of lost.values()) this.#planned.moved(next, undefined);
    for (const key of lost.keys()) this.#planned.moved(undefined, this.#applier.inForce.get(key));
  }

  /**
   * Starts with `targets`, which a repair is about to bring into force. A Forwarding in `refused`
   * is kept in its old form, and loses the frontends that another one desires.
   */
  async restart(
    targets: Map<string, Forwarding>,
    refused: Iterable<string>,
    pause: Pause,
  ): Promise<void> {
    const kept = new Set(refused);
    this.#planned.clear();
    await inTurns(targets, pause, ([key, target]) => {
      if (!kept.has(key)) this.#planned.moved(undefined, target);
    });
    for (const key of kept) {
      const target = targets.get(key);
      if (target === undefined) continue;
      const rest = this.#planned.withoutOthers(target);
      targets.set(key, rest);
      this.#planned.moved(undefined, rest);
    }
  }
}

type Keys = Map<FrontendKey, string>;

/**
 * Which planned Forwarding has each frontend. It decides nothing: what is desired says who is to
 * have it (`state/frontend-owners.ts`).
 */
class PlannedFrontends {
  #keys: Readonly<Record<Protocol, Keys>> = emptyMaps();

  /** Keys of other Forwardings that have frontends of `next`; usually undefined: none. */
  holders(next: Forwarding): ReadonlySet<string> | undefined {
    const { frontends, key, servicePort } = next;
    const owned = this.#keys[servicePort.protocol];
    let holders: Set<string> | undefined;
    for (const frontend of frontends) {
      const owner = owned.get(frontendKey(frontend)) ?? key;
      if (owner !== key) holders = (holders ?? new Set()).add(owner);
    }
    return holders;
  }

  /** Records a planned change; `next` has all its frontends from now on. */
  moved(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    if (previous !== undefined) this.#release(previous);
    if (next !== undefined) this.#claim(next);
  }

  /** The Forwarding without the frontends of others; itself when there are none. */
  withoutOthers(forwarding: Forwarding): Forwarding {
    const { key, servicePort } = forwarding;
    const owned = this.#keys[servicePort.protocol];
    return restricted(forwarding, (frontend) => (owned.get(frontend) ?? key) === key);
  }

  clear(): void {
    this.#keys = emptyMaps();
  }

  #release({ key, servicePort, frontends }: Forwarding): void {
    const owned = this.#keys[servicePort.protocol];
    for (const frontend of frontends) {
      const id = frontendKey(frontend);
      if (owned.get(id) === key) owned.delete(id);
    }
  }

  #claim({ key, servicePort, frontends }: Forwarding): void {
    const owned = this.#keys[servicePort.protocol];
    for (const frontend of frontends) owned.set(frontendKey(frontend), key);
  }
}

function emptyMaps(): Readonly<Record<Protocol, Keys>> {
  return { TCP: new Map(), UDP: new Map(), SCTP: new Map() };
}

/** `holder` without the frontends that `taker` has; both of one protocol and family. */
function yieldedTo(taker: Forwarding, holder: Forwarding): Forwarding {
  const taken = new Set(taker.frontends.map(frontendKey));
  return restricted(holder, (frontend) => !taken.has(frontend));
}

function restricted(forwarding: Forwarding, keep: (frontend: FrontendKey) => boolean): Forwarding {
  const frontends = forwarding.frontends.filter((frontend) => keep(frontendKey(frontend)));
  return frontends.length < forwarding.frontends.length ? { ...forwarding, frontends } : forwarding;
}

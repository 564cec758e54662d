/** The Forwardings of a mode that binds addresses. They depend on the machine's own addresses. */
import type { Forwarding } from '../state/types.ts';
import { inTurns, type Pause } from '../time/pacer.ts';
import type { Environment, RefusedAddress } from './mode.ts';
import { concernedBy, RefusedAddresses } from './own-addresses.ts';

/** What a planner does with the objects of a Forwarding in the present environment. */
interface Claims {
  release(forwarding: Forwarding): void;
  /** `previous`: what it takes the place of. */
  claim(forwarding: Forwarding, previous?: Forwarding): void;
}

export class BoundForwardings {
  readonly #claims: Claims;
  readonly #claimed = new Map<string, Forwarding>();
  readonly #refused = new RefusedAddresses();

  constructor(claims: Claims) {
    this.#claims = claims;
  }

  /** See `Planner.change`. */
  change(
    previous: Forwarding | undefined,
    next: Forwarding | undefined,
    environment: Environment,
  ): void {
    if (next !== undefined) {
      this.#claims.claim(next, previous);
      this.resume(next, environment);
    } else if (previous !== undefined) {
      this.#claims.release(previous);
      this.#claimed.delete(previous.key);
      this.#refused.forget(previous);
    }
  }

  /** A Forwarding that is in force already. */
  resume(forwarding: Forwarding, environment: Environment): void {
    this.#claimed.set(forwarding.key, forwarding);
    this.#refused.note(forwarding, environment);
  }

  clear(): void {
    this.#claimed.clear();
  }

  /** Claims again what the new environment changes; `move` makes it the planner's environment. */
  async move(
    before: Environment,
    after: Environment,
    pause: Pause,
    move: () => void,
  ): Promise<void> {
    const isConcerned = concernedBy(before, after);
    const concerned: Forwarding[] = [];
    await inTurns(this.#claimed.values(), pause, (forwarding) => {
      if (isConcerned(forwarding)) concerned.push(forwarding);
    });
    await inTurns(concerned, pause, (forwarding) => this.#claims.release(forwarding));
    move();
    await inTurns(concerned, pause, (forwarding) => {
      this.#claims.claim(forwarding);
      this.#refused.note(forwarding, after);
    });
  }

  /** Addresses refused since the last call. */
  takeRefused(): readonly RefusedAddress[] {
    return this.#refused.take();
  }
}

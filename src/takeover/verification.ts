/** Verifies that the kernel holds the desired rules, by reading them back. */
import type { Family } from '../net/address.ts';
import type { FamilyEvent } from '../sync/events.ts';
import type { FamilySync } from '../sync/family.ts';

type Verifiable = Pick<FamilySync, 'family' | 'audit'>;

interface Attempt extends PromiseWithResolvers<void> {
  /** Families without an audit that found no difference. */
  readonly awaited: Set<Family>;
}

export class Verification {
  readonly #families: readonly Verifiable[];
  /** Families whose desired state is entirely in force. */
  readonly #inForce = new Set<Family>();
  /** Families whose audit under way has found a difference. */
  readonly #drifted = new Set<Family>();
  #attempt: Attempt | undefined;
  #isStopped = false;

  constructor(families: readonly Verifiable[]) {
    this.#families = families;
  }

  /**
   * Resolves when all desired state is in force and an audit of each family has found no
   * difference, which may take until the cluster is known. Rejects at `stop` and after it.
   */
  verify(): Promise<void> {
    if (this.#isStopped) return Promise.reject(unverified());
    if (this.#attempt !== undefined) return this.#attempt.promise;
    const awaited = new Set(this.#families.map(({ family }) => family));
    const attempt = { awaited, ...Promise.withResolvers<void>() };
    this.#attempt = attempt;
    for (const family of awaited) if (this.#inForce.has(family)) this.#ask(family);
    return attempt.promise;
  }

  observe(event: FamilyEvent): void {
    const { family } = event;
    switch (event.kind) {
      case 'done':
        if (!event.ok || event.purpose === 'changes') return;
        this.#inForce.add(family);
        this.#ask(family);
        return;
      case 'failed':
        // Housekeeping is tried again by itself; anything else ends in a reading of the kernel.
        if (event.purpose === 'deferred' || event.purpose === 'sweep') return;
        if (event.retryMs !== undefined) this.#inForce.delete(family);
        return;
      case 'drift':
        if (event.purpose === 'audit') this.#drifted.add(family);
        return;
      case 'audited':
        if (this.#drifted.delete(family)) this.#ask(family);
        else if (this.#inForce.has(family)) this.#found(family);
        return;
      default:
        return;
    }
  }

  /** Nothing will be observed any more. */
  stop(): void {
    this.#isStopped = true;
    this.#attempt?.reject(unverified());
    this.#attempt = undefined;
  }

  #ask(family: Family): void {
    if (!this.#attempt?.awaited.has(family)) return;
    this.#families.find((one) => one.family === family)?.audit.verify();
  }

  #found(family: Family): void {
    const attempt = this.#attempt;
    attempt?.awaited.delete(family);
    if (attempt?.awaited.size !== 0) return;
    this.#attempt = undefined;
    attempt.resolve();
  }
}

function unverified(): Error {
  return new Error('verify rules: replaced before they were verified');
}

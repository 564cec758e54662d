/**
 * Ends connections to endpoints that have gone, of Services that ask for it: deletes their entries.
 * The next packet of the client is the first of a connection for the rules then: they send it to
 * another endpoint, which knows nothing of it, and resets it; or refuse it by a reset themselves.
 *
 * An entry is deleted only if its original destination is a frontend of that Service, and its reply
 * source an endpoint that has left the Service while this process ran.
 */
import type { Conntrack } from '../kernel/conntrack.ts';
import type { ConntrackEntries } from '../kernel/conntrack-entries.ts';
import { isAbsence } from '../kernel/errors.ts';
import type { Address, Family } from '../net/address.ts';
import type { FrontendKey } from '../state/frontend-key.ts';
import type { Forwarding } from '../state/types.ts';
import type { ConntrackObserver } from './events.ts';
import { Frontends } from './frontends.ts';
import { destinationOf, eachEnded, ended, type Judgement } from './policy.ts';
import { refusal } from './refusal.ts';
import { wholeDump } from './whole-dump.ts';

interface ConnectionEnderOptions {
  readonly family: Family;
  readonly conntrack: Conntrack;
  readonly clock: {
    now(): number;
    after(delayMs: number, call: () => void): () => void;
    turn(): Promise<void>;
  };
  readonly observer: ConntrackObserver;
  /** All TCP frontends in force. */
  readonly held: ReadonlyMap<FrontendKey, Forwarding>;
  /** Addresses that accept node ports. */
  readonly nodePortAddresses: () => readonly Address[];
}

/** Dumps of one frontend each. With more frontends, one dump of all TCP entries costs less. */
const narrowDumpsMax = 8;

/** Entries that are judged, and at most deleted, without a pause. */
const chunkEntries = 2000;

/** After a pass that took t, at least `restFactor * t` passes before the next one. */
const restFactor = 4;

/** Retries of a failed pass, after 1 s, 2 s, 4 s ... */
const attemptsMax = 5;
const retryFirstMs = 1000;

export class ConnectionEnder {
  readonly #options: ConnectionEnderOptions;
  readonly #frontends = new Frontends(eachEnded);
  /** True while the kernel may hold changes that were not reported yet. */
  #moving = true;
  #whenSettled: (() => void) | undefined;
  #cancelTimer = (): void => {};
  #running: Promise<void> | undefined;
  #restUntilMs = 0;
  #failures = 0;
  #stopped = false;

  constructor(options: ConnectionEnderOptions) {
    this.#options = options;
  }

  moving(): void {
    this.#moving = true;
  }

  /** As `ConntrackReconciler.changed`; it costs nothing for Services that do not ask for it. */
  changed(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    const [before, after] = [ending(previous), ending(next)];
    if (before !== undefined || after !== undefined) this.#frontends.changed(before, after);
  }

  upToDate(): void {
    this.#moving = false;
    this.#whenSettled?.();
    this.#whenSettled = undefined;
    this.#schedule();
  }

  /** Resolves when the pass under way is over. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer();
    this.#whenSettled?.();
    await this.#running;
  }

  #schedule(): void {
    if (this.#running !== undefined || this.#stopped) return;
    this.#frontends.ripen();
    this.#cancelTimer();
    if (this.#frontends.due.size === 0) return;
    const { clock } = this.#options;
    const delayMs = Math.max(0, this.#restUntilMs - clock.now());
    this.#cancelTimer = clock.after(delayMs, () => {
      this.#running = this.#run().finally(() => {
        this.#running = undefined;
        this.#schedule();
      });
    });
  }

  async #run(): Promise<void> {
    const { clock, family, observer } = this.#options;
    const startedMs = clock.now();
    const failure = await this.#pass().then(
      () => undefined,
      (error: Error) => (isAbsence(error) ? undefined : error),
    );
    const now = clock.now();
    this.#restUntilMs = now + restFactor * (now - startedMs);
    if (failure === undefined) {
      this.#failures = 0;
      this.#frontends.clear();
      return;
    }
    this.#failures += 1;
    const again = this.#failures <= attemptsMax;
    const retryMs = again ? retryFirstMs * 2 ** (this.#failures - 1) : undefined;
    observer({ kind: 'failed', family, protocol: 'TCP', error: failure, retryMs });
    if (retryMs !== undefined) this.#restUntilMs = now + retryMs;
    else {
      this.#failures = 0;
      this.#frontends.clear();
    }
  }

  async #pass(): Promise<void> {
    const { family, conntrack, held, nodePortAddresses } = this.#options;
    const { due } = this.#frontends;
    const judgement: Judgement = {
      held,
      suspects: due,
      spared: new Map(),
      nodePortAddresses,
      untranslated: 'right',
    };
    const of = { family, protocol: 'TCP', state: 'any', zone: 0 } as const;
    const isNarrow = due.size <= narrowDumpsMax;
    const destinations = isNarrow ? [...due.keys()].map((key) => destinationOf(family, key)) : [];
    const requests = isNarrow ? destinations.map((destination) => ({ ...of, destination })) : [of];
    for (const request of requests) {
      if (this.#stopped) return;
      const { entries } = await wholeDump(conntrack, request);
      await this.#end(entries, judgement);
    }
  }

  async #end(entries: ConntrackEntries, judgement: Judgement): Promise<void> {
    const { clock, conntrack, family, observer } = this.#options;
    for (let at = 0; at < entries.length && !this.#stopped; at += chunkEntries) {
      if (at > 0) await clock.turn();
      const startedMs = clock.now();
      const chunk = entries.slice(at, at + chunkEntries);
      const stale = await this.#atRest(ended(chunk, judgement), judgement);
      if (stale.length === 0) continue;
      const { failures } = await conntrack.delete(stale);
      const refused = new Set(failures.map(({ index }) => index));
      const deleted = stale.filter((index) => !refused.has(index));
      const durationMs = clock.now() - startedMs;
      const examined = chunk.length;
      observer({ kind: 'reconciled', family, protocol: 'TCP', durationMs, examined, deleted });
      if (failures.length > 0) throw refusal(stale, failures[0]!);
    }
  }

  /** As in the reconciler: an endpoint may have come back without an acknowledgement yet. */
  async #atRest(candidates: ConntrackEntries, judgement: Judgement): Promise<ConntrackEntries> {
    if (!this.#moving || candidates.length === 0) return candidates;
    return new Promise((resolve) => {
      this.#whenSettled = () => {
        resolve(this.#stopped ? candidates.slice(0, 0) : ended(candidates, judgement));
      };
    });
  }
}

/** Undefined: none of its connections is ended. */
function ending(forwarding: Forwarding | undefined): Forwarding | undefined {
  return forwarding?.endings?.kept === undefined ? undefined : forwarding;
}

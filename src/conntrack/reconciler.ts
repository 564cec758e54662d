/**
 * Deletes the conntrack entries of one family that contradict the Forwardings in force. It receives
 * each change that takes effect, and examines only entries of frontends that changed. At the start
 * all frontends are new, so it examines all entries once. A restart without a change finds no
 * contradiction and deletes nothing.
 */
import type { Conntrack, ConntrackDeletion, ConntrackDump } from '../kernel/conntrack.ts';
import { ConntrackEntries } from '../kernel/conntrack-entries.ts';
import { isAbsence } from '../kernel/errors.ts';
import type { Address, Family } from '../net/address.ts';
import type { Protocol } from '../net/protocol.ts';
import type { Forwarding } from '../state/types.ts';
import { ConnectionEnder } from './ender.ts';
import type { ConntrackObserver } from './events.ts';
import { Frontends } from './frontends.ts';
import { contradicting, destinationOf, type Judgement } from './policy.ts';
import { refusal } from './refusal.ts';
import { wholeDump } from './whole-dump.ts';

/** The part of a clock that is needed here; milliseconds, monotonic. */
interface ConntrackClock {
  now(): number;
  /** Calls once, after `delayMs`. The result cancels it. */
  after(delayMs: number, call: () => void): () => void;
  /** Resolves after one turn of the event loop. */
  turn(): Promise<void>;
}

interface ConntrackReconcilerOptions {
  readonly family: Family;
  readonly conntrack: Conntrack;
  readonly clock: ConntrackClock;
  readonly observer: ConntrackObserver;
  /** Reads the addresses of this machine that accept node ports when `all` do. */
  readonly localAddresses: () => readonly Address[];
  /** Default: wrong. */
  readonly untranslated?: Judgement['untranslated'];
}

const protocols = ['UDP', 'SCTP', 'TCP'] as const satisfies readonly Protocol[];

/**
 * How long after an endpoint is gone entries to it are examined. A TCP handshake under way looks
 * like one that is never answered, and its endpoint may still answer. So it is longer than any
 * round trip, and shorter than the second after which a client repeats its first packet.
 */
const graceMs = { UDP: 0, SCTP: 0, TCP: 500 } as const satisfies Record<Protocol, number>;

/** After a pass that took t, at least `restFactor * t` passes before the next one. */
const restFactor = 4;

/** Retries of a failed pass, after 1 s, 2 s, 4 s ... */
const attemptsMax = 5;
const retryFirstMs = 1000;

/** Entries judged without a pause. */
const chunkEntries = 5000;

const nothingDeleted: ConntrackDeletion = { deleted: 0, gone: 0, failures: [] };

/** The default conntrack zone. Services use no other. */
const zone = 0;

interface Work {
  readonly protocol: Protocol;
  readonly frontends: Frontends;
  /** `now` of the next pass; undefined: no pass is due. */
  dueMs: number | undefined;
  /** No pass before this. */
  restUntilMs: number;
  failures: number;
}

export class ConntrackReconciler {
  readonly #options: ConntrackReconcilerOptions;
  readonly #work: Readonly<Record<Protocol, Work>>;
  readonly #ender: ConnectionEnder;
  #nodePortAddresses: readonly Address[] | 'all' = [];
  /** True while the kernel may hold changes that were not reported yet. */
  #moving = true;
  /** Resolves the wait for `upToDate`. */
  #whenSettled: (() => void) | undefined;
  #cancelTimer = (): void => {};
  #running: Promise<void> | undefined;
  #stopped = false;

  constructor(options: ConntrackReconcilerOptions) {
    this.#options = options;
    this.#work = { UDP: newWork('UDP'), SCTP: newWork('SCTP'), TCP: newWork('TCP') };
    this.#ender = new ConnectionEnder({
      ...options,
      held: this.#work.TCP.frontends.held,
      nodePortAddresses: () => this.#acceptingAddresses(),
    });
  }

  /** Batches will be sent: nothing is judged until `upToDate`. */
  moving(): void {
    this.#moving = true;
    this.#ender.moving();
  }

  /** A change has come into force: undefined = did not exist, does not exist any more. */
  changed(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    const servicePort = (next ?? previous)?.servicePort;
    if (servicePort === undefined) return;
    this.#work[servicePort.protocol].frontends.changed(previous, next);
    this.#ender.changed(previous, next);
  }

  /** Notes that all reported changes are in force, and which addresses accept node ports. */
  upToDate(nodePortAddresses: readonly Address[] | 'all'): void {
    this.#moving = false;
    this.#acceptNodePorts(nodePortAddresses);
    this.#whenSettled?.();
    this.#whenSettled = undefined;
    this.#schedule();
    this.#ender.upToDate();
  }

  /** No contradicting entry is left, except TCP handshakes that may still be answered. */
  get idle(): boolean {
    return (
      this.#running === undefined &&
      Object.values(this.#work).every(({ protocol, frontends }) => {
        return graceMs[protocol] > 0 || frontends.isClear;
      })
    );
  }

  /** Resolves when the pass under way is over. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer();
    this.#whenSettled?.();
    await this.#running;
    await this.#ender.stop();
  }

  /** Examines node ports when addresses are new: clients may have sent there before. */
  #acceptNodePorts(next: readonly Address[] | 'all'): void {
    const previous = this.#nodePortAddresses;
    this.#nodePortAddresses = next;
    if (previous === next || previous === 'all') return;
    for (const { frontends } of Object.values(this.#work)) frontends.suspectNodePorts();
  }

  #schedule(): void {
    if (this.#running !== undefined || this.#stopped) return;
    const now = this.#options.clock.now();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const work of Object.values(this.#work)) {
      work.frontends.ripen();
      if (work.frontends.due.size === 0) continue;
      work.dueMs ??= Math.max(now + graceMs[work.protocol], work.restUntilMs);
      nextMs = Math.min(nextMs, work.dueMs);
    }
    this.#cancelTimer();
    if (nextMs === Number.POSITIVE_INFINITY) return;
    this.#cancelTimer = this.#options.clock.after(Math.max(0, nextMs - now), () => {
      this.#running = this.#run().finally(() => {
        this.#running = undefined;
        this.#schedule();
      });
    });
  }

  async #run(): Promise<void> {
    for (const protocol of protocols) {
      const work = this.#work[protocol];
      const { clock } = this.#options;
      const startedMs = clock.now();
      if (this.#stopped || work.dueMs === undefined || work.dueMs > startedMs) continue;
      const failure = await this.#pass(work).then(
        () => undefined,
        // A kernel without connection tracking has no entries.
        (error: Error) => (isAbsence(error) ? undefined : error),
      );
      const now = clock.now();
      work.restUntilMs = now + restFactor * (now - startedMs);
      work.dueMs = failure && this.#retryAtMs(work, failure);
      if (work.dueMs !== undefined) continue;
      work.failures = 0;
      work.frontends.clear();
    }
  }

  /** Undefined = do not try again. */
  #retryAtMs(work: Work, error: Error): number | undefined {
    const { family, clock, observer } = this.#options;
    const { protocol } = work;
    work.failures += 1;
    const again = work.failures <= attemptsMax;
    const retryMs = again ? retryFirstMs * 2 ** (work.failures - 1) : undefined;
    observer({ kind: 'failed', family, protocol, error, retryMs });
    return retryMs && clock.now() + retryMs;
  }

  async #pass({ protocol, frontends }: Work): Promise<void> {
    const { family, conntrack, clock, observer } = this.#options;
    const startedMs = clock.now();
    const { entries } = await this.#dump(protocol, frontends);
    const judgement: Judgement = {
      held: frontends.held,
      suspects: frontends.due,
      spared: frontends.fresh,
      nodePortAddresses: () => this.#acceptingAddresses(),
      untranslated: this.#options.untranslated ?? 'wrong',
    };
    const candidates = await this.#candidates(entries, judgement);
    const stale = await this.#atRest(candidates, judgement);
    const { failures } = stale.length === 0 ? nothingDeleted : await conntrack.delete(stale);
    const refused = new Set(failures.map(({ index }) => index));
    const deleted = stale.filter((index) => !refused.has(index));
    const durationMs = clock.now() - startedMs;
    const examined = entries.length;
    observer({ kind: 'reconciled', family, protocol, durationMs, examined, deleted });
    if (failures.length > 0) throw refusal(stale, failures[0]!);
  }

  async #dump(protocol: Protocol, { due }: Frontends): Promise<ConntrackDump> {
    const { family, conntrack } = this.#options;
    const state = protocol === 'TCP' ? 'unanswered' : 'any';
    // The kernel walks its whole table for each dump: several narrow dumps would cost more.
    const [only] = due.size === 1 ? due.keys() : [];
    const destination = only === undefined ? {} : { destination: destinationOf(family, only) };
    return wholeDump(conntrack, { family, protocol, state, zone, ...destination });
  }

  /** The entries that seem to contradict now. */
  async #candidates(entries: ConntrackEntries, judgement: Judgement): Promise<ConntrackEntries> {
    const { family, clock } = this.#options;
    const found: ConntrackEntries[] = [];
    for (let at = 0; at < entries.length && !this.#stopped; at += chunkEntries) {
      if (at > 0) await clock.turn();
      const chunk = entries.slice(at, at + chunkEntries);
      found.push(contradicting(chunk, judgement));
    }
    return ConntrackEntries.concat(family, found);
  }

  /**
   * Judges again when all changes in force were reported. Before that an entry may point at an
   * endpoint that is in force although its acknowledgement has not arrived.
   */
  async #atRest(candidates: ConntrackEntries, judgement: Judgement): Promise<ConntrackEntries> {
    const judge = (): ConntrackEntries =>
      this.#stopped ? candidates.slice(0, 0) : contradicting(candidates, judgement);
    if (!this.#moving || candidates.length === 0) return judge();
    return new Promise((resolve) => {
      this.#whenSettled = () => resolve(judge());
    });
  }

  #acceptingAddresses(): readonly Address[] {
    if (this.#nodePortAddresses !== 'all') return this.#nodePortAddresses;
    return this.#options.localAddresses();
  }
}

function newWork(protocol: Protocol): Work {
  const frontends = new Frontends();
  return { protocol, frontends, dueMs: undefined, restUntilMs: 0, failures: 0 };
}

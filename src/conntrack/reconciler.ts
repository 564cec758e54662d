/**
 * Deletes the conntrack entries of one family that contradict the Forwardings in force. It receives
 * each change that takes effect, and examines only entries of frontends that changed. At the start
 * all frontends are new, so it examines all entries once. A restart without a change finds no
 * contradiction and deletes nothing.
 *
 * In the same way it ends connections to endpoints that have gone, of Services that ask for it. The
 * next packet of the client is the first of a connection for the rules then: they send it to
 * another endpoint, which knows nothing of it, and resets it; or refuse it by a reset themselves.
 * Such an entry is deleted only if its original destination is a frontend of that Service, and its
 * reply source an endpoint that has left the Service while this process ran.
 *
 * Connections of Services that limit their age end likewise. For `least-connections` they count.
 *
 * Connections that are being made to an endpoint which failure detection leaves out get another
 * one: their entries are deleted, and the client repeats its first packet.
 */
import type { Conntrack, ConntrackDump, ConntrackRequest } from '../kernel/conntrack.ts';
import { ConntrackEntries } from '../kernel/conntrack-entries.ts';
import { isAbsence, KernelError } from '../kernel/errors.ts';
import { type Address, isLoopback } from '../net/address.ts';
import type { EndpointKey } from '../net/endpoint-list.ts';
import type { Protocol } from '../net/protocol.ts';
import { type FrontendKey, frontendKey, isNodePortKey } from '../state/frontend-key.ts';
import type { FrontendsInForce, Holders } from '../state/frontends-in-force.ts';
import type { Forwarding } from '../state/types.ts';
import { type Clock, isDue } from '../time/clock.ts';
import { restAfter } from '../time/rest.ts';
import { Runner } from '../time/runner.ts';
import { ConnectionAges } from './ages.ts';
import type { ConntrackObserver } from './events.ts';
import { SuspectFrontends } from './frontends.ts';
import { OpenConnections } from './open-connections.ts';
import {
  abandoned,
  type Criteria,
  contradicting,
  destinationOf,
  eachAbandoned,
  eachEnded,
  eachSuspect,
  ended,
  holderReader,
  noEndpoints,
} from './policy.ts';

/**
 * Names the Forwardings of which packets may still make connections to endpoints that are gone, at
 * present; undefined: there are none.
 */
type Unswept = () => ((forwarding: Forwarding) => boolean) | undefined;

/** See `Environment`. */
interface Accepting {
  readonly nodePortAddresses: readonly Address[] | 'all';
}

interface ConntrackReconcilerOptions {
  /** Nothing else changes it. Others read it. */
  readonly inForce: FrontendsInForce;
  readonly conntrack: Conntrack;
  readonly clock: Pick<Clock, 'now' | 'after' | 'turn' | 'random'>;
  readonly observer: ConntrackObserver;
  /** Reads the addresses of this machine. */
  readonly localAddresses: () => readonly Address[];
  /** Default: wrong. */
  readonly untranslated?: Criteria['untranslated'];
  /** Whether connections end when their entries do; default: yes. */
  readonly endsConnections?: boolean;
  /** What `open` says of a Service has changed; undefined: connections are not counted. */
  readonly moved?: ((service: string) => void) | undefined;
}

const protocols = ['UDP', 'SCTP', 'TCP'] as const satisfies readonly Protocol[];

/**
 * How long after an endpoint is gone entries to it are examined. A TCP handshake under way looks
 * like one that is never answered, and its endpoint may still answer. So it is longer than any
 * round trip, and shorter than the second after which a client repeats its first packet.
 */
const graceMs = { UDP: 0, SCTP: 0, TCP: 500 } as const satisfies Record<Protocol, number>;

/**
 * How long after a pass the next one for the same reason comes. While changes never end, the kernel
 * need not walk its whole table twice a second: entries are examined 2.5 s after a change at the
 * latest, and a client repeats its packet again after 3 s.
 */
const intervalMs = { UDP: 0, SCTP: 0, TCP: 2000 } as const satisfies Record<Protocol, number>;

/**
 * After passes that took t, at least `restFactor * t` passes before the next ones, whatever for: so
 * all passes of a family take a fifth of the time at most, whoever causes them.
 */
const restFactor = 4;

/** One Service can have 20,000 frontends that wait for sweeps: to ask about all takes 50 ms. */
const askPauseMs = 50;

/** Retries of a failed pass, after 1 s, 2 s, 4 s ... */
const attemptsMax = 5;
const retryFirstMs = 1000;

/** Entries examined without a pause, and at most deleted. */
const chunkEntries = 5000;
const chunkDeletions = 2000;

/** Attempts at an uninterrupted dump. The result of the last attempt is used as it is. */
const dumpsMax = 5;

/** The default conntrack zone. Services use no other. */
const zone = 0;

/** Entries of one protocol that are examined for one reason. */
interface Work {
  readonly protocol: Protocol;
  /** See `ConntrackRequest`. */
  readonly state: ConntrackRequest['state'];
  readonly frontends: SuspectFrontends;
  readonly holders: Holders;
  /** How long after an endpoint is gone entries to it are examined. */
  readonly graceMs: number;
  /** How long after a pass the next one comes; not less than `graceMs`. */
  readonly intervalMs: number;
  /**
   * The most frontends that have a dump each. The kernel walks its whole table for each dump: with
   * more frontends, one dump of all entries costs less.
   */
  readonly narrowDumpsMax: number;
  /** Those of the entries that are to be deleted. */
  readonly select: typeof contradicting;
  readonly untranslated: Criteria['untranslated'];
  /** Set where all entries of some are examined again and again: `frontends` says when. */
  readonly again?: Pick<ConnectionAges, 'begin' | 'changed' | 'end' | 'followed' | 'pauseMs'>;
  /** `now` of the next pass; undefined: no pass is due. */
  dueMs: number | undefined;
  /** Ends the time in which frontends wait so that more share a pass; undefined: they do not. */
  collecting: (() => void) | undefined;
  failures: number;
}

export class ConntrackReconciler {
  readonly #options: ConntrackReconcilerOptions;
  readonly #work: Readonly<Record<Protocol, Work>>;
  /** Ends connections. */
  readonly #endings: Work;
  /** Frees connections that are being made to endpoints which do not answer. */
  readonly #rescues: Work;
  /** Ends connections that are too old. */
  readonly #aged: Work & { readonly again: ConnectionAges };
  /** Counts connections. */
  readonly #counted: Readonly<Record<Protocol, Work & { readonly again: OpenConnections }>>;
  readonly #all: readonly Work[];
  #nodePortAddresses: Accepting['nodePortAddresses'] = [];
  #unswept: Unswept = () => undefined;
  /** True while the kernel may hold changes that were not reported yet. */
  #moving = true;
  /** Resolves the wait for `settled`. */
  #whenSettled: (() => void) | undefined;
  /** Asks frontends whether they wait for sweeps. */
  readonly #asking: Runner;
  readonly #passes: Runner;
  /** Whose pass is under way, or was the last one of those that are. */
  #current: Work | undefined;
  /** How long the last passes have waited for `settled`. */
  #settlingMs = 0;

  constructor(options: ConntrackReconcilerOptions) {
    this.#options = options;
    const { clock, inForce, untranslated = 'wrong' } = options;
    // It does not rest with the passes: whoever causes these does not keep others from being asked.
    this.#asking = new Runner({
      clock,
      work: async () => this.#markDue(),
      restMs: () => (this.#unswept() === undefined ? 0 : askPauseMs),
    });
    this.#passes = new Runner({
      clock,
      work: () => this.#run(),
      restMs: (tookMs) => restAfter(tookMs - this.#settlingMs, restFactor),
    });
    const work = (protocol: Protocol): Work => {
      return newWork(protocol, inForce.of(protocol), untranslated);
    };
    this.#work = { UDP: work('UDP'), SCTP: work('SCTP'), TCP: work('TCP') };
    this.#endings = onRequest(this.#work.TCP, { state: 'any', select: ended });
    this.#rescues = onRequest(this.#work.TCP, { state: 'unanswered', select: abandoned });
    const ages = new ConnectionAges(clock);
    const select: Work['select'] = (entries, by) => ages.due(entries, holderReader(entries, by));
    this.#aged = { ...onRequest(this.#work.TCP, { state: 'any', select }), again: ages };
    const counted = (protocol: Protocol) => counting(this.#work[protocol], options.moved);
    this.#counted = { UDP: counted('UDP'), SCTP: counted('SCTP'), TCP: counted('TCP') };
    const ordered = protocols.map((protocol) => this.#work[protocol]);
    const asked = [this.#endings, this.#rescues, this.#aged, ...Object.values(this.#counted)];
    this.#all = [...ordered, ...asked];
  }

  /** See `ForwardingFollower`: nothing is examined until `settled`. */
  moving(): void {
    this.#moving = true;
  }

  /** See `ForwardingFollower`. */
  changed(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    const servicePort = (next ?? previous)?.servicePort;
    if (servicePort === undefined) return;
    this.#options.inForce.changed(previous, next);
    const { protocol } = servicePort;
    eachSuspect(previous, next, this.#work[protocol].frontends.suspect);
    if (this.#options.moved !== undefined) follow(this.#counted[protocol], previous, next);
    if (protocol !== 'TCP') return;
    eachEnded(previous, next, this.#endings.frontends.suspect);
    eachAbandoned(previous, next, this.#rescues.frontends.suspect);
    if (this.#options.endsConnections !== false) follow(this.#aged, previous, next);
  }

  /** Connections by endpoint that slots of the Forwarding follow; undefined: none are counted. */
  open(forwarding: string): ReadonlyMap<EndpointKey, number> | undefined {
    if (this.#options.moved === undefined) return undefined;
    const counts = protocols.map((protocol) =>
      this.#counted[protocol].again.placed.get(forwarding),
    );
    return counts.find((found) => found !== undefined) ?? new Map();
  }

  /**
   * See `ForwardingFollower.settled`. Frontends of Forwardings that `unswept` names wait. Those of
   * others do not: there may always be some.
   */
  settled({ nodePortAddresses }: Accepting, unswept?: Unswept): void {
    this.#moving = false;
    if (unswept !== undefined) this.#unswept = unswept;
    this.#acceptNodePorts(nodePortAddresses);
    this.#whenSettled?.();
    this.#whenSettled = undefined;
    if (this.#all.some((work) => this.#isOpen(work) && work.frontends.fresh.size > 0)) {
      this.#asking.now();
    }
  }

  /** No contradicting entry is left, except TCP handshakes that may still be answered. */
  get upToDate(): boolean {
    return (
      !this.#passes.isRunning &&
      this.#all.every((work) => work.graceMs || work.again || work.frontends.isClear)
    );
  }

  /** Resolves when the pass under way is over. */
  async stop(): Promise<void> {
    const stopped = Promise.all([this.#asking.stop(), this.#passes.stop()]);
    for (const work of this.#all) work.collecting?.();
    this.#whenSettled?.();
    await stopped;
  }

  /** Examines node ports when addresses are new: clients may have sent there before. */
  #acceptNodePorts(next: Accepting['nodePortAddresses']): void {
    const previous = this.#nodePortAddresses;
    this.#nodePortAddresses = next;
    if (previous === next || previous === 'all') return;
    for (const { frontends, holders } of Object.values(this.#work)) {
      for (const key of holders.keys()) if (isNodePortKey(key)) frontends.suspect(key, noEndpoints);
    }
  }

  /** Makes due what does not wait for a sweep, and plans passes. */
  #markDue(): void {
    const now = this.#options.clock.now();
    const unswept = this.#unswept();
    for (const work of this.#all) {
      const { frontends } = work;
      const asks = work.again === undefined ? unswept : undefined;
      const isEarly = asks && ((key: FrontendKey) => holds(work, key, asks));
      if (this.#isOpen(work) && !frontends.markDue(isEarly)) this.#asking.soon();
      if (frontends.due.size === 0) continue;
      work.dueMs ??= now + (work.again?.pauseMs ?? work.graceMs);
      this.#passes.soon(work.dueMs - now);
    }
  }

  /** Whether more frontends may join those that are due: those wait for nothing but a rest. */
  #isOpen(work: Work): boolean {
    if (work.collecting !== undefined) return false;
    if (work.frontends.due.size === 0) return true;
    return work !== this.#current && work.graceMs === 0 && work.failures === 0;
  }

  /** A pass is over. */
  #collect(work: Work): void {
    const ms = work.intervalMs - work.graceMs;
    if (ms <= 0 || this.#passes.isStopped) return;
    work.collecting = this.#options.clock.after(ms, () => {
      work.collecting = undefined;
      this.#asking.now();
    });
  }

  async #run(): Promise<void> {
    this.#settlingMs = 0;
    for (const work of this.#all) {
      if (this.#passes.isStopped || !isDue(work.dueMs, this.#options.clock.now())) continue;
      this.#current = work;
      const failure = await this.#pass(work).then(
        () => undefined,
        // A kernel without connection tracking has no entries.
        (error: Error) => (isAbsence(error) ? undefined : error),
      );
      work.dueMs = failure && this.#retryAtMs(work, failure);
      if (work.dueMs !== undefined) continue;
      work.failures = 0;
      work.frontends.clear();
      suspectFollowed(work);
      this.#collect(work);
    }
    this.#current = undefined;
    this.#asking.now();
  }

  /** Undefined = do not try again. */
  #retryAtMs(work: Work, error: Error): number | undefined {
    const { clock, inForce, observer } = this.#options;
    const { family } = inForce;
    const { protocol } = work;
    work.failures += 1;
    const again = work.failures <= attemptsMax;
    const retryMs = again ? retryFirstMs * 2 ** (work.failures - 1) : undefined;
    observer({ kind: 'failed', family, protocol, error, retryMs });
    return retryMs && clock.now() + retryMs;
  }

  async #pass(work: Work): Promise<void> {
    const { frontends, holders, untranslated } = work;
    const criteria: Criteria = {
      holders,
      suspects: frontends.due,
      spared: frontends.fresh,
      nodePortAddresses: () => this.#acceptingAddresses(),
      untranslated,
    };
    work.again?.begin();
    for (const request of this.#requests(work)) {
      if (this.#passes.isStopped) return;
      await this.#examine(work, request, criteria);
    }
    work.again?.end();
  }

  /** One request of all entries, or one for each of a few frontends. */
  #requests({ again, frontends, narrowDumpsMax, protocol, state }: Work): ConntrackRequest[] {
    const { family } = this.#options.inForce;
    const all = { family, protocol, state, zone };
    const keys = again === undefined ? frontends.due.keys() : keysOf(again.followed);
    const requests: ConntrackRequest[] = [];
    for (const key of keys) {
      if (requests.length >= narrowDumpsMax) return [all];
      requests.push({ ...all, destination: destinationOf(family, key) });
    }
    return requests;
  }

  async #examine(work: Work, request: ConntrackRequest, criteria: Criteria): Promise<void> {
    const { conntrack, clock, inForce, observer } = this.#options;
    const { family } = inForce;
    const { protocol } = work;
    const startedMs = clock.now();
    const { entries } = await wholeDump(conntrack, request);
    const candidates = await this.#candidates(entries, work, criteria);
    const gone: ConntrackEntries[] = [];
    let failure: Error | undefined;
    for (let at = 0; at < candidates.length; at += chunkDeletions) {
      if (at > 0) await clock.turn();
      const chunk = candidates.slice(at, at + chunkDeletions);
      const stale = await this.#atRest(chunk, work, criteria);
      if (stale.length === 0) continue;
      const { failures } = await conntrack.delete(stale);
      const refused = new Set(failures.map(({ index }) => index));
      gone.push(stale.filter((index) => !refused.has(index)));
      if (failures.length > 0) failure ??= refusal(stale, failures[0]!);
    }
    const deleted = ConntrackEntries.concat(family, gone);
    const durationMs = clock.now() - startedMs;
    const examined = entries.length;
    const isForAge = work === this.#aged;
    observer({ kind: 'reconciled', family, protocol, durationMs, examined, deleted, isForAge });
    if (failure !== undefined) throw failure;
  }

  /** The entries that seem to be wrong now. */
  async #candidates(
    entries: ConntrackEntries,
    { select }: Work,
    criteria: Criteria,
  ): Promise<ConntrackEntries> {
    const { clock, inForce } = this.#options;
    const found: ConntrackEntries[] = [];
    for (let at = 0; at < entries.length && !this.#passes.isStopped; at += chunkEntries) {
      if (at > 0) await clock.turn();
      found.push(select(entries.slice(at, at + chunkEntries), criteria));
    }
    return ConntrackEntries.concat(inForce.family, found);
  }

  /**
   * Selects again when all changes in force were reported. Before that an entry may point at an
   * endpoint that is in force although its acknowledgement has not arrived.
   */
  async #atRest(
    candidates: ConntrackEntries,
    { select }: Work,
    criteria: Criteria,
  ): Promise<ConntrackEntries> {
    const selectAgain = (): ConntrackEntries =>
      this.#passes.isStopped ? candidates.slice(0, 0) : select(candidates, criteria);
    if (!this.#moving) return selectAgain();
    const sinceMs = this.#options.clock.now();
    return new Promise((resolve) => {
      this.#whenSettled = () => {
        this.#settlingMs += this.#options.clock.now() - sinceMs;
        resolve(selectAgain());
      };
    });
  }

  #acceptingAddresses(): readonly Address[] {
    if (this.#nodePortAddresses !== 'all') return this.#nodePortAddresses;
    return this.#options.localAddresses().filter((address) => !isLoopback(address));
  }
}

function newWork(
  protocol: Protocol,
  holders: Holders,
  untranslated: Criteria['untranslated'],
): Work {
  return {
    protocol,
    frontends: new SuspectFrontends(),
    holders,
    untranslated,
    // Answered TCP connections are left alone.
    state: protocol === 'TCP' ? 'unanswered' : 'any',
    graceMs: graceMs[protocol],
    intervalMs: intervalMs[protocol],
    narrowDumpsMax: 1,
    select: contradicting,
    dueMs: undefined,
    collecting: undefined,
    failures: 0,
  };
}

/** Work on the same frontends for Services that ask for it: it costs nothing for others. */
function onRequest({ holders, protocol }: Work, other: Pick<Work, 'state' | 'select'>): Work {
  const soon = { graceMs: 0, intervalMs: 0 };
  return { ...newWork(protocol, holders, 'right'), ...other, ...soon, narrowDumpsMax: 8 };
}

/** Work that finds nothing wrong, and counts the connections of what asks for that. */
function counting(work: Work, moved: ConntrackReconcilerOptions['moved']) {
  const again = new OpenConnections(moved);
  const select: Work['select'] = (entries, by) => {
    again.count(entries, holderReader(entries, by));
    return entries.slice(0, 0);
  };
  return { ...onRequest(work, { state: 'any', select }), again };
}

function follow(work: Work, previous: Forwarding | undefined, next: Forwarding | undefined): void {
  work.again?.changed(previous, next);
  suspectFollowed(work);
}

/** Makes a pass due, where something is followed. */
function suspectFollowed({ again, frontends }: Work): void {
  const [one] = again?.followed ?? [];
  if (one !== undefined && frontends.isClear) frontends.suspect(one.key, noEndpoints);
}

/** Of all frontends. */
function* keysOf(forwardings: Iterable<Forwarding>): Generator<FrontendKey, undefined> {
  for (const { frontends } of forwardings) for (const one of frontends) yield frontendKey(one);
}

function holds({ holders }: Work, key: FrontendKey, isOne: (of: Forwarding) => boolean): boolean {
  const holder = holders.get(key);
  return holder !== undefined && isOne(holder);
}

async function wholeDump(conntrack: Conntrack, request: ConntrackRequest): Promise<ConntrackDump> {
  let dump = await conntrack.dump(request);
  for (let i = 1; i < dumpsMax && !dump.complete; i += 1) dump = await conntrack.dump(request);
  return dump;
}

/** The kernel's refusal to delete one of the entries. */
function refusal(
  entries: ConntrackEntries,
  { index, code }: { readonly index: number; readonly code: string },
): KernelError {
  const subject = entries.text(index);
  return new KernelError({ operation: 'conntrack.delete', subject, code, words: 'refused' });
}

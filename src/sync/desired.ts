/** From dirty Services to what each family desires: resolve them, and ask who owns frontends. */

import type { Family } from '../net/address.ts';
import { type Excess, formatExcess } from '../state/budget.ts';
import { formatConflict, formatConflictForLoser } from '../state/conflict.ts';
import { type Balance, formatFallback } from '../state/deal.ts';
import { sameForwarding } from '../state/equal.ts';
import { externalIPNotices, formatExternalIPNotice } from '../state/external-ips.ts';
import { type FrontendOwners, type Ownership, transferred } from '../state/frontend-owners.ts';
import type { NamespaceShares } from '../state/namespace-shares.ts';
import { noSockets } from '../state/node-sockets.ts';
import { kept, listOf, type OneOrMore } from '../state/one-or-more.ts';
import { type ResolveContext, resolveInSteps } from '../state/resolve.ts';
import type { ClusterState, ServiceFollower } from '../state/store.ts';
import type { TriggerTime } from '../state/trigger-times.ts';
import { type Forwarding, forwardingId, type Service, serviceKey } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';
import type { Cause } from './cause.ts';
import type { Departures } from './departures.ts';
import type { Observer } from './events.ts';
import type { FamilySync } from './family.ts';
import { Notices } from './notices.ts';
import type { SlowStarts } from './slow-starts.ts';
import type { Tracked } from './tracked.ts';

/** Learns from the kernel which balances it can do. Services are dirty once it has answered. */
export interface Balances {
  /** A Service asks for it. Called again and again. */
  ask(balance: Balance): void;
  /** Resolves once the kernel has answered all; undefined: it has. */
  readonly answers: Promise<void> | undefined;
}

export interface DesiredOptions {
  readonly state: ClusterState;
  /** Which Service owns each frontend. Nothing else changes it. */
  readonly owners: FrontendOwners;
  readonly families: readonly FamilySync[];
  /** The present context of Forwardings: all that they depend on except Services and slices. */
  readonly context: () => ResolveContext;
  readonly clock: Clock;
  readonly observer: Observer;
  /** Asks the kernel about balances that Services ask for; default: all can be done. */
  readonly balances?: Balances;
  /** What new endpoints are noted in; default: all have their share from the beginning. */
  readonly slowStarts?: SlowStarts;
  /** What endpoints that leave are noted in; default: connections of none are ended. */
  readonly departures?: Departures;
  /** What each namespace asks for is counted in it; default: no namespace is limited. */
  readonly shares?: NamespaceShares;
  /** Default: none. */
  readonly followers?: readonly ServiceFollower[] | undefined;
}

const noRecords: readonly Tracked[] = [];
const noTimes: readonly number[] = [];

export class Desired {
  readonly #options: DesiredOptions;
  /** Those that are desired of each Service that has any, in the order of resolving. */
  readonly #records = new Map<string, OneOrMore<Tracked>>();
  readonly #notices: Notices;
  readonly #syncs: Partial<Record<Family, FamilySync>> = {};
  #isListed = false;
  /** The last one, without trigger times. */
  #cause: Cause = { receivedMs: Number.NaN, resolvedMs: Number.NaN, triggerTimesMs: noTimes };

  constructor(options: DesiredOptions) {
    this.#options = options;
    this.#notices = new Notices(options.observer);
    for (const sync of options.families) this.#syncs[sync.family] = sync;
  }

  /** All that there was at the start is desired: endpoints that come from now on are new. */
  listed(): void {
    this.#isListed = true;
  }

  /** Services that ask for more than one Service gets. */
  get overLimit(): number {
    return this.#notices.count('over-limit');
  }

  /**
   * Resolves one Service again and sets what each family desires of it, and of other Services which
   * lose or gain frontends with it. That is done in one step: no frontend is ever desired twice. A
   * Service that can't be resolved keeps what it has. Most Services take one step. Between two steps
   * other Services may be refreshed, but not this one.
   */
  *refresh(name: string, receivedMs: number): Generator<undefined, void> {
    const { owners, state } = this.#options;
    const triggers = state.takeTriggerTimes(name);
    const service = state.service(name);
    this.#countInNamespace(name, service);
    const before = listOf(this.#records.get(name) ?? noRecords);
    try {
      const known = this.#options.context();
      const resolved = service === undefined ? [] : yield* this.#resolve(service, known);
      for (const part of owners.withdraw(name, resolved)) {
        if (part !== undefined) {
          this.#transfer(part);
          yield* this.#report(name, part, this.#causeOf(receivedMs));
        }
        yield;
      }
      const records = yield* this.#track(resolved, before);
      const gone = yield* without(before, resolved);
      const owned =
        service === undefined
          ? this.#release(name)
          : yield* owners.set(service, resolved, known.nodeSockets);
      this.#set(name, { before, gone, records }, owned);
      const cause = this.#causeOf(receivedMs);
      // Trigger times belong to the Service: they go with the first of its ports in each family.
      const next = {
        IPv4: withTimes(cause, triggers, 'IPv4'),
        IPv6: withTimes(cause, triggers, 'IPv6'),
      };
      const changed = gone.length === 0 ? records : [...records, ...gone];
      for (let i = 0; i < changed.length; i += 1) {
        if (i % keysAStep === keysAStep - 1) yield;
        const record = changed[i]!;
        this.#syncs[record.family]!.changed(record, next[record.family], name);
        next[record.family] = cause;
      }
      yield* this.#report(name, owned, cause);
    } catch (error) {
      this.#unresolvable(name, error as Error);
    }
  }

  /** Other Services are resolved again if their limits change with what this one asks for. */
  #countInNamespace(name: string, service: Service | undefined): void {
    const { shares, state } = this.#options;
    if (shares === undefined) return;
    const changed = shares.count(name, service, state.slices(name));
    for (const other of changed) state.touch(other);
  }

  /**
   * The cause of a change that is resolved now. Those that came, and are resolved, in the same
   * millisecond share one: each would be in memory until its batch is in force.
   */
  #causeOf(receivedMs: number): Cause {
    const resolvedMs = this.#options.clock.now();
    const { receivedMs: last, resolvedMs: lastResolvedMs } = this.#cause;
    const isSame = Math.abs(receivedMs - last) < 1 && resolvedMs < lastResolvedMs + 1;
    if (!isSame) this.#cause = { receivedMs, resolvedMs, triggerTimesMs: noTimes };
    return this.#cause;
  }

  /** Marks and reports what a change of a Service means for others. */
  *#report(
    name: string,
    { affected, conflicts, transfers }: Change,
    cause: Cause,
  ): Generator<undefined, void> {
    let marked = 0;
    for (const { family, forwarding: key, service } of transfers) {
      // Its own are marked at the end, each once.
      if (service === name) continue;
      const sync = this.#syncs[family];
      sync?.changed(sync.track(key), cause, service);
      marked += 1;
      if (marked % keysAStep === 0) yield;
    }
    for (const conflict of conflicts) {
      const [port, text] = [conflict.loser, formatConflict(conflict)];
      const note = formatConflictForLoser(conflict);
      const service = serviceKey(port);
      this.#options.observer({ kind: 'conflict', service, port, text, note });
      yield;
    }
    for (const other of affected) {
      if (other === undefined) yield;
      else this.#options.state.touch(other);
    }
  }

  /** Forgets a Service that is gone. */
  #release(name: string): Ownership {
    const { departures, owners, slowStarts } = this.#options;
    this.#notices.forget(name);
    slowStarts?.forget(name);
    departures?.forget(name);
    return owners.release(name);
  }

  *#resolve(service: Service, known: ResolveContext): Generator<undefined, Forwarding[]> {
    const { departures, slowStarts, state } = this.#options;
    const slices = state.servedSlices(service.key);
    let { forwardings, excess, rangeRefusals } = yield* resolveInSteps(service, slices, known);
    if (this.#isListed && slowStarts?.concerns(service)) {
      const desired = (one: Forwarding) => this.#desiredAt(one);
      if (yield* slowStarts.note(service, forwardings, desired)) {
        ({ forwardings, excess, rangeRefusals } = yield* resolveInSteps(service, slices, known));
      }
    }
    if (departures?.concerns(service)) forwardings = yield* departures.note(service, forwardings);
    this.#note(service, known, forwardings, excess);
    this.#notices.report('port-range-not-done', service.key, rangeRefusals);
    return forwardings;
  }

  /** The records of those whose family is served. What is desired already takes their place. */
  *#track(forwardings: Forwarding[], before: readonly Tracked[]): Generator<undefined, Tracked[]> {
    const records: Tracked[] = [];
    for (let i = 0; i < forwardings.length; i += 1) {
      if (i > 0) yield;
      const [one, known] = [forwardings[i]!, before[records.length]];
      const record = isOf(known, one) ? known : this.#syncs[one.family]?.track(one.key);
      if (record === undefined) continue;
      records.push(record);
      // It is in force: two of each would take memory.
      const { desired } = record;
      if (desired !== undefined && sameForwarding(desired, one)) forwardings[i] = desired;
    }
    return records;
  }

  #desiredAt({ family, key }: Forwarding): Forwarding | undefined {
    return this.#syncs[family]?.desired.get(key);
  }

  #note(
    service: Service,
    known: ResolveContext,
    forwardings: readonly Forwarding[],
    excess: readonly Excess[],
  ): void {
    const { key } = service;
    const { externalIPRules, externalIPsEnabled, nodeSockets = noSockets } = known;
    const found = externalIPsEnabled
      ? externalIPNotices(service, externalIPRules, nodeSockets)
      : [];
    const ofNode = found.filter(({ because }) => because === 'node');
    const others = found.filter(({ because }) => because !== 'node');
    this.#notices.report('kept', key, this.#options.state.isKept(key) ? [''] : []);
    this.#notices.report('over-limit', key, excess.map(formatExcess));
    this.#notices.report('balance-not-done', key, this.#fallbackOf(forwardings));
    this.#notices.report('external-ip', key, others.map(formatExternalIPNotice));
    this.#notices.report('external-ip-of-node', key, ofNode.map(formatExternalIPNotice));
  }

  /** Asks the kernel about balances. Returns why one is not done that the Service asks for. */
  #fallbackOf(forwardings: readonly Forwarding[]): readonly string[] {
    let reason: string | undefined;
    for (const { deal } of forwardings) {
      if (deal === undefined) continue;
      this.#options.balances?.ask(deal.asked ?? 'random');
      reason ??= formatFallback(deal);
    }
    return reason === undefined ? [] : [reason];
  }

  /** Reports that a Service cannot be resolved. */
  #unresolvable(service: string, { message: text }: Error): void {
    this.#options.observer({ kind: 'unresolvable', service, text });
  }

  /** The only step in which what is desired changes: no frontend is ever desired twice. */
  #set(name: string, { before, gone, records }: Records, owned: Ownership): void {
    const { followers = [] } = this.#options;
    let set = 0;
    for (const one of owned.forwardings) {
      const sync = this.#syncs[one.family];
      if (sync === undefined) continue;
      if (records[set]!.isEmpty) records[set] = sync.track(one.key);
      sync.setDesired(records[set]!, one);
      set += 1;
    }
    for (const record of gone) this.#syncs[record.family]!.setDesired(record, undefined);
    if (records.length === 0) this.#records.delete(name);
    // V8 makes room for 17 in a list that grows.
    else if (!isSame(records, before)) this.#records.set(name, kept(records.slice()));
    this.#transfer(owned);
    for (const follower of followers) follower.resolved(name);
  }

  #transfer({ transfers }: Change): void {
    const { followers = [] } = this.#options;
    for (const transfer of transfers) {
      const { family, forwarding: key } = transfer;
      const sync = this.#syncs[family];
      const desired = sync?.desired.get(key);
      if (desired === undefined) continue;
      sync!.setDesired(sync!.track(key), transferred(desired, transfer));
      for (const follower of followers) follower.resolved(transfer.service);
    }
  }
}

/** Of the claims of a Service. */
type Change = Omit<Ownership, 'forwardings'>;

/** Of a Service. */
interface Records {
  /** Of what was desired. */
  readonly before: readonly Tracked[];
  /** Those of them of which nothing is desired any more. */
  readonly gone: readonly Tracked[];
  /** Of what is desired. */
  readonly records: Tracked[];
}

/** Whether it is the record of the Forwarding. */
function isOf(record: Tracked | undefined, one: Forwarding | undefined): record is Tracked {
  return record !== undefined && record.key === one?.key && record.family === one.family;
}

function isSame(some: readonly Tracked[], others: readonly Tracked[]): boolean {
  return some.length === others.length && some.every((record, i) => record === others[i]);
}

/** The number of Forwardings that are compared, or marked, in one step. */
const keysAStep = 64;

/** Those that are of none of the Forwardings. */
function* without(
  records: readonly Tracked[],
  forwardings: readonly Forwarding[],
): Generator<undefined, readonly Tracked[]> {
  let same = 0;
  while (isOf(records[same], forwardings[same])) {
    same += 1;
    if (same % keysAStep === 0) yield;
  }
  if (same === records.length) return noRecords;
  const left = new Set<string>();
  for (let i = same; i < forwardings.length; i += 1) {
    left.add(forwardingId(forwardings[i]!.family, forwardings[i]!.key));
    if (i % keysAStep === 0) yield;
  }
  const gone: Tracked[] = [];
  for (let i = same; i < records.length; i += 1) {
    const record = records[i]!;
    if (!left.has(forwardingId(record.family, record.key))) gone.push(record);
    if (i % keysAStep === 0) yield;
  }
  return gone;
}

/** The cause, with the trigger times of one family. */
function withTimes(cause: Cause, triggers: readonly TriggerTime[], family: Family): Cause {
  if (triggers.length === 0) return cause;
  const own = triggers.filter((trigger) => trigger.family === family);
  return { ...cause, triggerTimesMs: own.map(({ timeMs }) => timeMs) };
}

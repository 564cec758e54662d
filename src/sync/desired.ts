/** From dirty Services to what each family desires: resolve them, and ask who owns frontends. */

import type { Family } from '../net/address.ts';
import type { Excess } from '../state/budget.ts';
import { type Balance, formatFallback } from '../state/deal.ts';
import { sameForwarding } from '../state/equal.ts';
import { externalIPNotices, formatExternalIPNotice } from '../state/external-ips.ts';
import {
  type FrontendOwners,
  type Ownership,
  type Transfer,
  transferred,
} from '../state/frontend-owners.ts';
import { noSockets } from '../state/node-sockets.ts';
import { kept, listOf, type OneOrMore } from '../state/one-or-more.ts';
import { type ResolveContext, resolveInSteps } from '../state/resolve.ts';
import type { ClusterState } from '../state/store.ts';
import type { TriggerTime } from '../state/trigger-times.ts';
import type { Forwarding, Service } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';
import type { Departures } from './departures.ts';
import type { Observer } from './events.ts';
import type { FamilySync } from './family.ts';
import type { SlowStarts } from './slow-starts.ts';

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
  /** Gets the `namespace/name` of each Service whose desired Forwardings were set, or are gone. */
  readonly resolved?: (service: string) => void;
}

const noKeys: readonly string[] = [];
const noTimes: readonly number[] = [];

export class Desired {
  readonly #options: DesiredOptions;
  /** Keys of the Forwardings of each Service that has any. */
  readonly #keys: Readonly<Record<Family, Map<string, OneOrMore<string>>>> = {
    IPv4: new Map(),
    IPv6: new Map(),
  };
  /** Services that ask for more than one Service gets, and what was reported of that. */
  readonly #excess = new Map<string, string>();
  /** Services whose balance is not done, and what was reported of that. */
  readonly #fallbacks = new Map<string, string>();
  /** What was reported of external IPs, by Service. */
  readonly #notices = new Map<string, ReadonlySet<string>>();

  #isListed = false;

  constructor(options: DesiredOptions) {
    this.#options = options;
  }

  /** All that there was at the start is desired: endpoints that come from now on are new. */
  listed(): void {
    this.#isListed = true;
  }

  /** Services that ask for more than one Service gets. */
  get overLimit(): number {
    return this.#excess.size;
  }

  /**
   * Resolves one Service again and sets what each family desires of it, and of other Services which
   * lose or gain frontends with it. That is done in one step: no frontend is ever desired twice.
   * Between other steps other Services may be refreshed, but not this one. A Service that can't be
   * resolved keeps what it has.
   */
  *refresh(name: string, receivedMs: number): Generator<undefined, void> {
    const { observer, owners, state } = this.#options;
    const service = state.service(name);
    const triggers = state.takeTriggerTimes(name);
    if (service === undefined) {
      this.#excess.delete(name);
      this.#fallbacks.delete(name);
      this.#notices.delete(name);
      this.#options.slowStarts?.forget(name);
      this.#options.departures?.forget(name);
      this.#set(name, [], triggers, receivedMs);
      const { conflicts, transfers } = owners.release(name);
      for (const transfer of transfers) this.#transfer(transfer, receivedMs);
      if (conflicts.length > 0) yield* this.#report(conflicts);
      return;
    }
    try {
      const { conflicts, forwardings, transfers } = yield* this.#resolve(service);
      this.#set(name, forwardings, triggers, receivedMs);
      for (const transfer of transfers) this.#transfer(transfer, receivedMs);
      if (conflicts.length > 0) yield* this.#report(conflicts);
    } catch (error) {
      observer({ kind: 'unresolvable', service: name, error: error as Error });
    }
  }

  *#report(conflicts: Ownership['conflicts']): Generator<undefined, void> {
    for (const conflict of conflicts) {
      this.#options.observer({ kind: 'conflict', conflict });
      yield;
    }
  }

  *#resolve(service: Service): Generator<undefined, Ownership> {
    const { departures, owners, slowStarts, state, context } = this.#options;
    const slices = state.slices(service.key);
    const known = context();
    let { forwardings, excess } = yield* resolveInSteps(service, slices, known);
    const before = (one: Forwarding) => this.#sync(one.family)?.desired.get(one.key);
    const follows = this.#isListed && slowStarts !== undefined;
    if (follows && (yield* slowStarts.note(service, forwardings, before))) {
      ({ forwardings, excess } = yield* resolveInSteps(service, slices, known));
    }
    if (departures !== undefined) forwardings = yield* departures.note(service, forwardings);
    this.#noteExcess(service.key, excess);
    this.#noteFallback(service.key, forwardings);
    this.#noteExternalIPs(service, known);
    // Equal ones are desired already, and in force: two of each would take memory.
    const shared: Forwarding[] = [];
    for (const forwarding of forwardings) {
      if (shared.length > 0) yield;
      const desired = this.#sync(forwarding.family)?.desired.get(forwarding.key);
      const isSame = desired !== undefined && sameForwarding(desired, forwarding);
      shared.push(isSame ? desired : forwarding);
    }
    return yield* owners.set(service, shared, known.nodeSockets);
  }

  #sync(family: Family): FamilySync | undefined {
    return this.#options.families.find((sync) => sync.family === family);
  }

  /** Reports an excess that is new or has changed. */
  #noteExcess(service: string, excess: readonly Excess[]): void {
    if (excess.length === 0) {
      this.#excess.delete(service);
      return;
    }
    const text = JSON.stringify(excess);
    if (this.#excess.get(service) === text) return;
    this.#excess.set(service, text);
    for (const one of excess) this.#options.observer({ kind: 'over-limit', service, excess: one });
  }

  /** Reports that the balance is not done which the Service asks for, where that is new. */
  #noteFallback(service: string, forwardings: readonly Forwarding[]): void {
    let reason: string | undefined;
    for (const { deal } of forwardings) {
      if (deal === undefined) continue;
      this.#options.balances?.ask(deal.asked ?? 'random');
      reason ??= formatFallback(deal);
    }
    if (reason === undefined) {
      this.#fallbacks.delete(service);
      return;
    }
    if (this.#fallbacks.get(service) === reason) return;
    this.#fallbacks.set(service, reason);
    this.#options.observer({ kind: 'balance-not-done', service, reason });
  }

  /** Reports new notices about external IPs. */
  #noteExternalIPs(service: Service, context: ResolveContext): void {
    const { externalIPRules, externalIPsEnabled, nodeSockets = noSockets } = context;
    const known = this.#notices.get(service.key);
    const isOfInterest = externalIPsEnabled && service.externalIPs.length > 0;
    const notices = isOfInterest ? externalIPNotices(service, externalIPRules, nodeSockets) : [];
    if (notices.length === 0) {
      this.#notices.delete(service.key);
      return;
    }
    const texts = new Set<string>();
    for (const notice of notices) {
      const text = formatExternalIPNotice(notice);
      texts.add(text);
      if (!known?.has(text)) this.#options.observer({ kind: 'external-ip', notice });
    }
    this.#notices.set(service.key, texts);
  }

  /** Frontends pass between Forwardings of other Services. */
  #transfer(transfer: Transfer, receivedMs: number): void {
    const { clock, resolved } = this.#options;
    const sync = this.#sync(transfer.family);
    const forwarding = sync?.desired.get(transfer.forwarding);
    if (sync === undefined || forwarding === undefined) return;
    const cause = { receivedMs, resolvedMs: clock.now(), triggerTimesMs: noTimes };
    sync.setDesired(forwarding.key, transferred(forwarding, transfer), cause);
    resolved?.(transfer.service);
  }

  #set(
    name: string,
    forwardings: readonly Forwarding[],
    triggers: readonly TriggerTime[],
    receivedMs: number,
  ): void {
    const resolvedMs = this.#options.clock.now();
    for (const sync of this.#options.families) {
      const { family } = sync;
      const before = listOf(this.#keys[family].get(name) ?? noKeys);
      const own = forwardings.filter((forwarding) => forwarding.family === family);
      if (own.length === 0 && before.length === 0) continue;
      // Trigger times belong to the Service: they go with the first of its ports.
      const untriggered = { receivedMs, resolvedMs, triggerTimesMs: noTimes };
      let cause = { ...untriggered, triggerTimesMs: timesOf(triggers, family) };
      for (const forwarding of own) {
        sync.setDesired(forwarding.key, forwarding, cause);
        cause = untriggered;
      }
      const gone = without(before, own);
      for (const key of gone) {
        sync.setDesired(key, undefined, cause);
        cause = untriggered;
      }
      if (own.length === 0) this.#keys[family].delete(name);
      else if (gone.length > 0 || own.length > before.length) {
        this.#keys[family].set(name, kept(own.map(keyOf)));
      }
    }
    this.#options.resolved?.(name);
  }
}

function keyOf({ key }: Forwarding): string {
  return key;
}

/** The keys that are of none of the Forwardings. */
function without(keys: readonly string[], all: readonly Forwarding[]): readonly string[] {
  if (keys.every((key, i) => key === all[i]?.key)) return noKeys;
  const others = new Set(all.map(keyOf));
  return keys.filter((key) => !others.has(key));
}

function timesOf(triggers: readonly TriggerTime[], family: Family): readonly number[] {
  if (triggers.length === 0) return noTimes;
  return triggers.filter((t) => t.family === family).map((t) => t.timeMs);
}

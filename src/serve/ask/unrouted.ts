/**
 * Endpoints to which this node has no route, one that drops packets, or one to a machine that does
 * not answer on its link. They are looked for when answers and metrics ask, not more often than
 * every few seconds; never for a packet or a change.
 */

import { type Finding, warning } from '../../host/finding.ts';
import { type Route, routeWords } from '../../host/reach.ts';
import {
  deadHopTo,
  type IsSuspect,
  leadsInto,
  noHops,
  parseRoute,
  type RouteEntry,
  type Routing,
  routesFrom,
  suspectsOf,
} from '../../host/routing.ts';
import {
  addressBytes,
  type Family,
  families,
  formatAddress,
  parseCIDR,
} from '../../net/address.ts';
import { endpointBytes } from '../../net/endpoint-list.ts';
import type { Seen } from '../../state/resolve.ts';
import type { ClusterState, ServiceFollower } from '../../state/store.ts';
import { latin1At, namespaceOf } from '../../state/types.ts';
import type { Clock } from '../../time/clock.ts';
import type { Pacer } from '../../time/pacer.ts';
import { answerPacer, type Refresh, refreshing } from './answer-pacer.ts';
import type { Problem } from './problem.ts';

type Failure = Exclude<Route, 'found'>;

/**
 * Why not, by address, in network order, a character for each byte: as the kernel finds it, or in
 * words. A value that is replaced on change.
 */
type Unrouted = ReadonlyMap<string, string>;

interface Options {
  readonly clock: Pick<Clock, 'now' | 'turn'>;
  readonly state: Pick<ClusterState, 'node' | 'service' | 'serviceKeys' | 'slices'>;
  /** Absent: routes of this process are not the node's. */
  readonly routing: Routing | undefined;
}

/** The routes of a family. */
interface Routes {
  readonly text: string | undefined;
  /** Undefined: every address has one, as far as they say. */
  readonly isSuspect: IsSuspect | undefined;
  /** Those to which routes to this node's podCIDRs lead. */
  readonly podDevices: ReadonlySet<string>;
  readonly ways: ReturnType<typeof routesFrom>;
  /** This Node's podCIDRs and `DeadHops`, as they were then. */
  readonly others: string;
}

const noRoutes: Routes = {
  ...{ text: undefined, isSuspect: undefined },
  ...{ podDevices: new Set(), ways: routesFrom('IPv4', []), others: '' },
};

/** How long a search serves, and the shortest pause after it, in multiples of its duration. */
const kept = { keepMs: 5000, restFactor: 50 } as const;
/** The most endpoints whose routes are asked of the kernel in a search. */
const askedMax = 200;
/** As many are asked for each namespace before any has more: no tenant hides those of others. */
const askedAlways = 20;
/** Endpoints that are asked in one turn of the event loop. */
const askedAtOnce = 16;
/** Endpoints that are compared with routes in one turn of the event loop. */
const lookedAtOnce = 64;
/** The most endpoints of a Service that are named. */
const namedMax = 3;
/**
 * The most endpoints of a Service that are looked at, in one turn of the event loop. One counts for
 * each of its ports, which mostly have the same.
 */
export const lookedAtMax = 20_000;

export class UnroutedEndpoints implements ServiceFollower {
  readonly #options: Options;
  /** As they were read last. */
  readonly #routes: Record<Family, Routes> = { IPv4: noRoutes, IPv6: noRoutes };
  /** Services with endpoints that may have no route, by those. */
  readonly #suspected = new Set<string>();
  /** Services that were resolved since they were compared with those. */
  readonly #resolved = new Set<string>();
  /** A search finds suspects; those of two searches in a row are certain. */
  #suspectHops = noHops;
  #deadHops = noHops;
  #found: Unrouted = new Map();
  /** What is not right of this node, as of the last search. */
  findings: readonly Finding[] = [];
  readonly refresh: Refresh;

  constructor(options: Options) {
    this.#options = options;
    this.refresh = refreshing(options, kept, () => this.#search());
  }

  /** What is known; see `refresh`. */
  get found(): Unrouted {
    return this.#found;
  }

  /** Devices to which the routes to pods of this node lead; undefined: not known. */
  get podDevices(): ReadonlySet<string> | undefined {
    const { IPv4, IPv6 } = this.#routes;
    const all = new Set([...IPv4.podDevices, ...IPv6.podDevices]);
    return all.size === 0 ? undefined : all;
  }

  /** The Service was resolved, or is gone. The first search is of all Services. */
  resolved(service: string): void {
    if (families.every((family) => this.#routes[family].isSuspect === undefined)) return;
    if (this.#options.state.service(service) !== undefined) {
      this.#resolved.add(service);
      return;
    }
    this.#resolved.delete(service);
    this.#suspected.delete(service);
  }

  async #search(): Promise<void> {
    const { routing, state } = this.#options;
    if (routing === undefined) return;
    const pacer = answerPacer(this.#options);
    const hops = await routing.deadHops();
    this.#deadHops = new Set([...hops].filter((hop) => this.#suspectHops.has(hop)));
    this.#suspectHops = hops;
    let isNew = false;
    for (const family of families) isNew = (await this.#read(family, routing, pacer)) || isNew;
    if (isNew) {
      for (const some of [this.#resolved, this.#suspected]) some.clear();
      for (const key of state.serviceKeys()) this.resolved(key);
    }
    await this.#compare(pacer);
    const found = new Map<string, string>();
    for (const family of families) {
      const suspects = [...(await this.#suspects(family, pacer))];
      for (let i = 0; i < suspects.length; i += askedAtOnce) {
        const some = suspects.slice(i, i + askedAtOnce);
        const routes = await routing.find(some.map(textOf), family);
        for (const [j, latin1] of some.entries()) {
          const { ways } = this.#routes[family];
          const hop = routes[j] === 'found' && deadHopTo(latin1, ways, this.#deadHops);
          const why = hop || routes[j]!;
          if (why !== 'found') found.set(latin1, why);
        }
        if (pacer.due) await pacer.rest();
      }
    }
    if (!isSame(found, this.#found)) this.#found = found;
    this.findings = await this.#toServices(routing);
  }

  /** By the ClusterIPs of one: the kernel looks for their route before rules translate them. */
  async #toServices({ find }: Routing): Promise<Finding[]> {
    const findings: Finding[] = [];
    const [first = ''] = this.#options.state.serviceKeys();
    for (const { family, latin1 } of this.#options.state.service(first)?.clusterIPs ?? []) {
      if (this.#routes[family].isSuspect?.(latin1, 0) !== true) continue;
      const [route = 'found'] = await find([textOf(latin1)], family);
      if (route === 'found') continue;
      const text = `its programs do not reach Services, such as ${textOf(latin1)}: ${routeWords[route]}`;
      findings.push(warning('', text, 'add a default route, or one to the ServiceCIDRs'));
    }
    return findings;
  }

  /** Reads the routes of a family. Returns whether they have changed. */
  async #read(family: Family, { read }: Routing, pacer: Pacer): Promise<boolean> {
    const text = await read(family);
    const podCIDRs = this.#options.state.node?.podCIDRs.join() ?? '';
    const dead = this.#deadHops;
    const others = `${podCIDRs} ${[...dead].join()}`;
    const before = this.#routes[family];
    if (text === before.text && others === before.others) return false;
    const entries: RouteEntry[] = [];
    const podDevices = new Set<string>();
    const blocks = podCIDRs.split(',').flatMap((one) => parseCIDR(one) ?? []);
    for (const line of (text ?? '').split('\n')) {
      const entry = parseRoute(family, line);
      if (entry !== undefined) entries.push(entry);
      if (entry !== undefined && leadsInto(entry, blocks)) podDevices.add(entry.device);
      if (pacer.due) await pacer.rest();
    }
    const ways = routesFrom(family, entries);
    const isSuspect = text === undefined ? undefined : suspectsOf(family, ways, dead);
    this.#routes[family] = { text, isSuspect, podDevices, ways, others };
    return true;
  }

  /** Compares Services with the routes that were not. */
  async #compare(pacer: Pacer): Promise<void> {
    for (const key of [...this.#resolved]) {
      this.#resolved.delete(key);
      this.#suspected.delete(key);
      for (const latin1 of this.#suspectsOf(key, families)) {
        if (latin1 !== undefined) this.#suspected.add(key);
        if (this.#suspected.has(key)) break;
        if (pacer.due) await pacer.rest();
      }
    }
  }

  /** The addresses of a Service that may have no route; undefined: now and then, for a pause. */
  *#suspectsOf(key: string, of: readonly Family[]): Generator<string | undefined> {
    for (const slice of this.#options.state.slices(key)) {
      yield undefined;
      const { addresses, family, length } = slice;
      const { isSuspect } = this.#routes[family];
      if (isSuspect === undefined || !of.includes(family)) continue;
      const size = addressBytes[family];
      for (let i = 0; i < length; i += 1) {
        if (i % lookedAtOnce === lookedAtOnce - 1) yield undefined;
        if (isSuspect(addresses, i * size)) yield latin1At(slice, i);
      }
    }
  }

  async #suspects(family: Family, pacer: Pacer): Promise<ReadonlySet<string>> {
    const found = new Set<string>();
    const further = new Set<string>();
    const ofNamespaces = new Map<string, number>();
    for (const key of this.#suspected) {
      const namespace = namespaceOf(key);
      for (const latin1 of this.#suspectsOf(key, [family])) {
        if (pacer.due) await pacer.rest();
        if (latin1 === undefined || found.has(latin1)) continue;
        const before = ofNamespaces.get(namespace) ?? 0;
        if (before >= askedAlways) {
          if (further.size < askedMax) further.add(latin1);
          continue;
        }
        ofNamespaces.set(namespace, before + 1);
        found.add(latin1);
        if (found.size === askedMax) return found;
      }
    }
    for (const latin1 of further) {
      if (found.size === askedMax) break;
      found.add(latin1);
    }
    return found;
  }

  /** The first few endpoints in use of these ports. */
  problems(seen: readonly Pick<Seen, 'forwarding'>[]): Problem[] {
    if (this.#found.size === 0) return [];
    const named = new Map<string, Problem>();
    let left = lookedAtMax;
    for (const { forwarding } of seen) {
      for (const list of new Set([forwarding.local, forwarding.cluster])) {
        const size = addressBytes[list.family];
        const stride = endpointBytes[list.family];
        for (let i = 0; i < list.length; i += 1, left -= 1) {
          if (left === 0) return [...named.values()];
          const latin1 = list.latin1.slice(i * stride, i * stride + size);
          const route = this.#found.get(latin1);
          if (route === undefined) continue;
          const text = () => unroutedText(textOf(latin1), route);
          named.set(latin1, { reason: 'no_route', text });
          if (named.size === namedMax) return [...named.values()];
        }
      }
    }
    return [...named.values()];
  }
}

/** `endpoint`: its address, in text. */
export function unroutedText(endpoint: string, why: string): string {
  const words = why in routeWords && `${routeWords[why as Failure]} (ip route get ${endpoint})`;
  return `Packets do not get to endpoint ${endpoint}: ${words || why}.`;
}

function textOf(latin1: string): string {
  return formatAddress(Buffer.from(latin1, 'latin1'));
}

/** All Services are checked again when it is not. */
function isSame(a: Unrouted, b: Unrouted): boolean {
  return a.size === b.size && Array.from(a).every(([latin1, route]) => b.get(latin1) === route);
}

/**
 * Endpoints to which this node has no route, or one that drops packets. They are looked for when
 * answers and metrics ask, not more often than every few seconds; never for a packet or a change.
 */

import { type Route, routeWords } from '../../host/reach.ts';
import { type IsSuspect, parseRoute, type Routing, suspectsOf } from '../../host/routing.ts';
import { addressBytes, type Family, families, formatAddress } from '../../net/address.ts';
import { endpointBytes } from '../../net/endpoint-list.ts';
import type { Seen } from '../../state/resolve.ts';
import type { ClusterState } from '../../state/store.ts';
import type { Clock } from '../../time/clock.ts';
import type { Pacer } from '../../time/pacer.ts';
import { RecentResults, waitedAtMost } from '../../time/recent.ts';
import { answerPacer, readingPatienceMs } from './answer-pacer.ts';
import type { Problem } from './problem.ts';

type Failure = Exclude<Route, 'found'>;

/** By address, in network order, a character for each byte; a value that is replaced on change. */
type Unrouted = ReadonlyMap<string, Failure>;

interface Options {
  readonly clock: Pick<Clock, 'now' | 'turn'>;
  readonly state: Pick<ClusterState, 'serviceKeys' | 'slices'>;
  /** Absent: routes of this process are not the node's. */
  readonly routing: Routing | undefined;
}

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

export class UnroutedEndpoints {
  readonly #options: Options;
  #found: Unrouted = new Map();
  readonly #searches: RecentResults<void>;

  constructor(options: Options) {
    this.#options = options;
    this.#searches = new RecentResults({ ...kept, clock: options.clock });
  }

  /** What is known; see `refresh`. */
  get found(): Unrouted {
    return this.#found;
  }

  /** Searches again after a while. Concurrent callers share the work, and none waits long. */
  refresh(): Promise<void> {
    const search = this.#searches.of('', () => this.#search());
    return waitedAtMost(readingPatienceMs, search);
  }

  async #search(): Promise<void> {
    const { routing } = this.#options;
    if (routing === undefined) return;
    const pacer = answerPacer(this.#options);
    const found = new Map<string, Failure>();
    for (const family of families) {
      const isSuspect = await this.#suspects(family, routing, pacer);
      if (isSuspect === undefined) continue;
      const suspected = [...(await this.#suspected(family, isSuspect, pacer))];
      for (let i = 0; i < suspected.length; i += askedAtOnce) {
        const some = suspected.slice(i, i + askedAtOnce);
        const routes = await routing.find(some.map(textOf), family);
        for (const [j, latin1] of some.entries()) {
          const route = routes[j]!;
          if (route !== 'found') found.set(latin1, route);
        }
        if (pacer.due) await pacer.rest();
      }
    }
    if (!isSame(found, this.#found)) this.#found = found;
  }

  async #suspects(family: Family, { read }: Routing, pacer: Pacer): Promise<IsSuspect | undefined> {
    const text = await read(family);
    if (text === undefined) return undefined;
    const entries = [];
    for (const line of text.split('\n')) {
      const entry = parseRoute(family, line);
      if (entry !== undefined) entries.push(entry);
      if (pacer.due) await pacer.rest();
    }
    return suspectsOf(family, entries);
  }

  async #suspected(family: Family, isSuspect: IsSuspect, pacer: Pacer): Promise<Set<string>> {
    const { state } = this.#options;
    const size = addressBytes[family];
    const found = new Set<string>();
    const further = new Set<string>();
    const ofNamespaces = new Map<string, number>();
    for (const key of state.serviceKeys()) {
      const namespace = key.slice(0, key.indexOf('/'));
      for (const { addresses, family: own, length } of state.slices(key)) {
        if (pacer.due) await pacer.rest();
        if (own !== family) continue;
        for (let i = 0; i < length; i += 1) {
          if (i % lookedAtOnce === lookedAtOnce - 1 && pacer.due) await pacer.rest();
          if (!isSuspect(addresses, i * size)) continue;
          const latin1 = addresses.slice(i * size, (i + 1) * size);
          if (found.has(latin1)) continue;
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
export function unroutedText(endpoint: string, route: Failure): string {
  const why = `${routeWords[route]} (ip route get ${endpoint})`;
  return `Packets do not get to endpoint ${endpoint}: ${why}.`;
}

function textOf(latin1: string): string {
  return formatAddress(Buffer.from(latin1, 'latin1'));
}

/** All Services are checked again when it is not. */
function isSame(a: Unrouted, b: Unrouted): boolean {
  return a.size === b.size && Array.from(a).every(([latin1, route]) => b.get(latin1) === route);
}

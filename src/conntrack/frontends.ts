import type { EndpointKey } from '../net/endpoint-list.ts';
import { type FrontendKey, isNodePortKey } from '../state/frontend-key.ts';
import { type Forwarding, forwardingKey } from '../state/types.ts';
import { eachSuspect, frontendKeys, noEndpoints } from './policy.ts';

type Suspects = Map<FrontendKey, ReadonlySet<EndpointKey>>;

/** The frontends of one family and protocol: who holds them, and whose entries to look at. */
export class Frontends {
  readonly #held = new Map<FrontendKey, Forwarding>();
  #fresh: Suspects = new Map();
  /** Of those frontends that lost endpoints in several changes: what a change says, many share. */
  #gathered = new Map<FrontendKey, Set<EndpointKey>>();
  #due: Suspects = new Map();

  /** Frontends in force. */
  get held(): ReadonlyMap<FrontendKey, Forwarding> {
    return this.#held;
  }

  /** Frontends whose entries are suspect since the last `ripen`, with the endpoints they lost. */
  get fresh(): ReadonlyMap<FrontendKey, ReadonlySet<EndpointKey>> {
    return this.#fresh;
  }

  /** Those whose entries are to be looked at now. */
  get due(): ReadonlyMap<FrontendKey, ReadonlySet<EndpointKey>> {
    return this.#due;
  }

  /** No entries are to be looked at, now or later. */
  get isClear(): boolean {
    return this.#due.size === 0 && this.#fresh.size === 0;
  }

  /** A change has come into force. */
  changed(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    if (previous === next) return;
    const after = new Set(frontendKeys(next));
    for (const key of frontendKeys(previous)) {
      if (after.has(key)) continue;
      // Another one may have taken it already.
      const holder = this.#held.get(key);
      if (holder !== undefined && isSamePort(holder, previous!)) this.#held.delete(key);
    }
    for (const key of after) this.#held.set(key, next!);
    eachSuspect(previous, next, (key, lost) => this.#suspect(key, lost));
  }

  /** Every node port may have entries from before it was reachable at some address. */
  suspectNodePorts(): void {
    for (const key of this.#held.keys()) if (isNodePortKey(key)) this.#suspect(key, noEndpoints);
  }

  /** What is fresh becomes due, unless something is due still. */
  ripen(): void {
    if (this.#due.size > 0) return;
    this.#due = this.#fresh;
    this.#fresh = new Map();
    this.#gathered = new Map();
  }

  /** What is due has been looked at. */
  clear(): void {
    this.#due = new Map();
  }

  #suspect(key: FrontendKey, lost: ReadonlySet<EndpointKey>): void {
    const known = this.#fresh.get(key) ?? noEndpoints;
    if (known.size === 0) {
      this.#fresh.set(key, lost);
      return;
    }
    if (lost.size === 0 || lost === known) return;
    const gathered = this.#gathered.get(key) ?? new Set(known);
    for (const endpoint of lost) gathered.add(endpoint);
    this.#gathered.set(key, gathered);
    this.#fresh.set(key, gathered);
  }
}

function isSamePort(a: Forwarding, b: Forwarding): boolean {
  return a === b || forwardingKey(a.servicePort) === forwardingKey(b.servicePort);
}

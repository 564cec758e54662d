/**
 * Endpoints that have left the EndpointSlices of a Service whose connections are ended: how long
 * ago, and whether their time is over. Time that a restart takes is not known: what left before it
 * stays as it is.
 */
import { addCount } from '../net/counts.ts';
import { EndpointFinder } from '../net/endpoint-finder.ts';
import { EndpointList } from '../net/endpoint-list.ts';
import type { ClusterState } from '../state/store.ts';
import { type Forwarding, forwardingId, namespaceOf, type Service } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';

interface DeparturesOptions {
  readonly clock: Clock;
  /** A Service is touched when the time of one of its endpoints is over. */
  readonly state: Pick<ClusterState, 'touch'>;
}

/** The most endpoints of a Service that are waited for; of more, the first have less time. */
const departuresMax = 4096;
/** Of all Services of a namespace, for the Service that is noted last. */
const ofNamespaceMax = 10 * departuresMax;

/** Of one Forwarding. */
interface Port {
  /** What the EndpointSlices had last. */
  readonly listed: EndpointList;
  /** Those that have left, and when, the first one first. */
  readonly left: EndpointList;
  readonly leftAtMs: readonly number[];
}

interface Known {
  readonly ports: ReadonlyMap<string, Port>;
  /** How many endpoints of all ports have left. */
  readonly left: number;
  readonly cancel: () => void;
}

export class Departures {
  readonly #options: DeparturesOptions;
  readonly #services = new Map<string, Known>();
  /** How many endpoints have left the Services of each namespace, for those with any. */
  readonly #leftOf = new Map<string, number>();

  constructor(options: DeparturesOptions) {
    this.#options = options;
  }

  /** Ends all timers. */
  stop(): void {
    for (const { cancel } of this.#services.values()) cancel();
    this.#services.clear();
    this.#leftOf.clear();
  }

  /** The Service is gone, or its connections are not ended. */
  forget(service: string): void {
    this.#services.get(service)?.cancel();
    this.#count(service, 0);
    this.#services.delete(service);
  }

  /** Sets how many have left the Service. Must be called before it is known with this number. */
  #count(service: string, left: number): void {
    const before = this.#services.get(service)?.left ?? 0;
    addCount(this.#leftOf, namespaceOf(service), left - before);
  }

  /** Whether the connections of the Service are ended, or were: otherwise `note` does nothing. */
  concerns({ endings, key }: Service): boolean {
    return endings?.endAfterMs !== undefined || this.#services.has(key);
  }

  /**
   * The Forwardings, with those that left not long ago among the endpoints that are kept. Between
   * its steps other Services may be noted, but not this one.
   */
  *note({ endings, key }: Service, forwardings: Forwarding[]): Generator<undefined, Forwarding[]> {
    const known = this.#services.get(key);
    const endAfterMs = endings?.endAfterMs;
    if (endAfterMs === undefined) {
      if (known !== undefined) this.forget(key);
      return forwardings;
    }
    const { clock, state } = this.#options;
    const now = clock.now();
    const ports = new Map<string, Port>();
    const ofOthers = (this.#leftOf.get(namespaceOf(key)) ?? 0) - (known?.left ?? 0);
    const most = Math.max(0, Math.min(departuresMax, ofNamespaceMax - ofOthers));
    let room = most;
    let firstMs = Number.POSITIVE_INFINITY;
    const noted: Forwarding[] = [];
    for (const forwarding of forwardings) {
      const listed = forwarding.endings?.kept;
      if (listed === undefined) {
        noted.push(forwarding);
        continue;
      }
      yield;
      const id = forwardingId(forwarding.family, forwarding.key);
      const times = { now, sinceMs: now - endAfterMs };
      const port = yield* departed(known?.ports.get(id), listed, times, room);
      const { left, leftAtMs } = port;
      room -= left.length;
      ports.set(id, port);
      if (left.length === 0) {
        noted.push(forwarding);
        continue;
      }
      firstMs = Math.min(firstMs, leftAtMs[0]! + endAfterMs);
      yield;
      const kept = joined(listed, left);
      noted.push({ ...forwarding, endings: { ...forwarding.endings, kept } });
    }
    known?.cancel();
    const isAny = firstMs < Number.POSITIVE_INFINITY;
    const cancel = isAny ? clock.after(Math.ceil(firstMs - now), () => state.touch(key)) : () => {};
    const left = most - room;
    this.#count(key, left);
    this.#services.set(key, { ports, left, cancel });
    return noted;
  }
}

interface Times {
  readonly now: number;
  /** Endpoints that left at this time or earlier are not waited for. */
  readonly sinceMs: number;
}

/** Those that had left, and have not come back, and those that have left since; the last `most`. */
function* departed(
  port: Port | undefined,
  listed: EndpointList,
  { now, sinceMs }: Times,
  most: number,
): Generator<undefined, Port> {
  if (port === undefined) return { listed, left: EndpointList.empty[listed.family], leftAtMs: [] };
  const isSame = port.listed.equals(listed);
  if (isSame && port.left.length === 0) return port;
  const here = new EndpointFinder(listed);
  const since = isSame ? [] : here.missing(port.listed);
  const newest = since.slice(Math.max(0, since.length - most));
  yield;
  const absent = isSame ? [...port.leftAtMs.keys()] : here.missing(port.left);
  const before = absent.filter((i) => port.leftAtMs[i]! > sinceMs);
  const oldest = before.slice(Math.max(0, before.length + newest.length - most));
  yield;
  const left = joined(picked(port.left, oldest), picked(port.listed, newest));
  const leftAtMs = [...oldest.map((i) => port.leftAtMs[i]!), ...newest.map(() => now)];
  return { listed, left, leftAtMs };
}

function picked(list: EndpointList, indexes: readonly number[]): EndpointList {
  return indexes.length === list.length ? list : list.picked(Uint32Array.from(indexes));
}

function joined(first: EndpointList, second: EndpointList): EndpointList {
  if (second.length === 0) return first;
  if (first.length === 0) return second;
  return EndpointList.from(first.family, Buffer.concat([first.bytes(), second.bytes()]));
}

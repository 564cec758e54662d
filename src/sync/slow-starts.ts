/**
 * Slow start: the share of an endpoint that comes into a pool grows from 10 % to its weight, in ten
 * steps. All endpoints of a Service take their steps together, so that it is resolved again ten
 * times in the time that it asks for, however many endpoints come.
 */
import type { Family } from '../net/address.ts';
import { EndpointFinder } from '../net/endpoint-finder.ts';
import type { EndpointKey, EndpointList } from '../net/endpoint-list.ts';
import { grownPart, growthStepMs, growthSteps } from '../state/growth.ts';
import type { ClusterState } from '../state/store.ts';
import { type Forwarding, forwardingId, type Service } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';

interface SlowStartsOptions {
  readonly clock: Clock;
  /** A Service is touched whose shares have grown. */
  readonly state: Pick<ClusterState, 'touch'>;
}

/** The number of endpoints that are compared in one step. */
const endpointsAStep = 512;

/** Of a Service: by family and Forwarding, the step at which each endpoint came. */
interface Starts {
  readonly stepMs: number;
  readonly since: Map<string, Map<EndpointKey, number>>;
  readonly cancel: () => void;
}

export class SlowStarts {
  readonly #options: SlowStartsOptions;
  readonly #services = new Map<string, Starts>();
  /** Which Service each entry of `since` belongs to. */
  readonly #owners = new Map<string, string>();

  constructor(options: SlowStartsOptions) {
    this.#options = options;
  }

  /** Ends all timers. */
  stop(): void {
    for (const service of [...this.#services.keys()]) this.forget(service);
  }

  /** The Service is gone, or asks for no slow start. */
  forget(service: string): void {
    const starts = this.#services.get(service);
    if (starts === undefined) return;
    starts.cancel();
    for (const id of starts.since.keys()) this.#owners.delete(id);
    this.#services.delete(service);
  }

  /** The endpoints whose share still grows, and the part of it that each has. */
  starting(family: Family, forwarding: string): ReadonlyMap<EndpointKey, number> | undefined {
    const id = forwardingId(family, forwarding);
    const starts = this.#services.get(this.#owners.get(id) ?? '');
    const since = starts?.since.get(id);
    if (starts === undefined || since === undefined) return undefined;
    const now = this.#stepOf(starts.stepMs);
    const parts = new Map<EndpointKey, number>();
    for (const [key, step] of since) {
      const part = grownPart(now - step);
      if (part < 1) parts.set(key, part);
    }
    return parts.size === 0 ? undefined : parts;
  }

  /** Whether the Service asks for a slow start, or did: otherwise `note` does nothing. */
  concerns({ balancing, key }: Service): boolean {
    return balancing?.slowStartMs !== undefined || this.#services.has(key);
  }

  /**
   * Compares the endpoints in the pools of a Service with those before. Endpoints of a new
   * Forwarding do not start slowly: no others could serve in the meantime. Returns whether an
   * endpoint starts. Between its steps other Services may be noted, but not this one.
   */
  *note(
    { balancing, key }: Service,
    forwardings: readonly Forwarding[],
    before: (forwarding: Forwarding) => Forwarding | undefined,
  ): Generator<undefined, boolean> {
    const { slowStartMs } = balancing ?? {};
    const known = this.#services.get(key);
    if (slowStartMs === undefined) {
      this.forget(key);
      return false;
    }
    const stepMs = growthStepMs(slowStartMs);
    const now = this.#stepOf(stepMs);
    const since = new Map<string, Map<EndpointKey, number>>();
    let isNew = false;
    for (const forwarding of forwardings) {
      const id = forwardingId(forwarding.family, forwarding.key);
      const last = known?.stepMs === stepMs ? known.since.get(id) : undefined;
      const previous = before(forwarding);
      if (previous === undefined) continue;
      yield;
      const own = yield* startedIn(previous, forwarding, now);
      isNew ||= own.size > 0;
      if (last !== undefined) {
        const [had, has] = [findersOf(previous), findersOf(forwarding)];
        let compared = 0;
        for (const [endpoint, step] of last) {
          compared += 1;
          if (compared % endpointsAStep === 0) yield;
          if (now - step >= growthSteps - 1) continue;
          const isIn = (finder: EndpointFinder): boolean => finder.has(endpoint);
          if (had.some(isIn) && has.some(isIn)) own.set(endpoint, step);
        }
      }
      if (own.size > 0) since.set(id, own);
    }
    this.forget(key);
    if (since.size === 0) return false;
    const { clock, state } = this.#options;
    const delayMs = (now + 1) * stepMs - clock.now();
    const cancel = clock.after(Math.max(1, Math.ceil(delayMs)), () => state.touch(key));
    this.#services.set(key, { stepMs, since, cancel });
    for (const id of since.keys()) this.#owners.set(id, key);
    return isNew;
  }

  #stepOf(stepMs: number): number {
    return Math.floor(this.#options.clock.now() / stepMs);
  }
}

/** Those that have come into a pool, all at this step. */
function* startedIn(
  before: Forwarding,
  after: Forwarding,
  step: number,
): Generator<undefined, Map<EndpointKey, number>> {
  const finders = findersOf(before);
  const started = new Map<EndpointKey, number>();
  for (const list of listsOf(after)) {
    for (let i = 0; i < list.length; i += 1) {
      if (i % endpointsAStep === endpointsAStep - 1) yield;
      if (finders.every((finder) => finder.indexOf(list, i) < 0)) started.set(list.key(i), step);
    }
  }
  return started;
}

function findersOf(forwarding: Forwarding): EndpointFinder[] {
  return listsOf(forwarding).map((list) => new EndpointFinder(list));
}

function listsOf({ cluster, local }: Forwarding): readonly EndpointList[] {
  return local.equals(cluster) ? [cluster] : [cluster, local];
}

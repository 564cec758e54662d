/**
 * How many connections this node has open to each endpoint of the Services whose balance is
 * `least-connections`, in modes that draw endpoints at random: those with fewer get more slots.
 */
import type { ConntrackEntries } from '../kernel/conntrack-entries.ts';
import { addCount } from '../net/counts.ts';
import type { EndpointKey, EndpointList } from '../net/endpoint-list.ts';
import { fewConnections, slotsOf } from '../state/deal.ts';
import { withPortOf } from '../state/frontend-key.ts';
import { rangeIn } from '../state/port-range.ts';
import { type Forwarding, serviceKey } from '../state/types.ts';

type Counts = ReadonlyMap<EndpointKey, number>;

/**
 * The part that a pass has in the mean of the last ones. Slots answer to counts with the power of
 * three (`slotsByLoad`): where all connections are replaced between two passes, they would swing
 * with more than 1/2, and come to rest soonest with 1/(1 + 3).
 */
const passPart = 1 / 4;
/** A mean below this is as good as none. */
const meanMin = 0.1;

/**
 * Slots move when the mean of an endpoint differs by more than a tenth of what it would be if all
 * had grown alike, and by more than chance does where all connections are replaced between passes:
 * four standard deviations of such a mean, which are √(passPart / (2 - passPart)) of those of a
 * count.
 */
const partMoved = 0.1;
const deviationsMoved = 4 * Math.sqrt(passPart / (2 - passPart));

/** About how many slots may change after a pass, and how many endpoints are compared. */
const slotsMost = 1024;
const comparedMost = 1024;

const none: Counts = new Map();

/** Of one family and protocol. */
export class OpenConnections {
  readonly pauseMs = 1000;
  readonly #moved: ((service: string) => void) | undefined;
  /** Those that were compared last come last. */
  readonly #followed = new Map<string, Forwarding>();
  /** Connections by Forwarding and endpoint, as a mean of the last passes. */
  readonly #mean = new Map<string, Counts>();
  /** The same that slots follow at present. */
  readonly placed = new Map<string, Counts>();
  #pass = new Map<string, Map<EndpointKey, number>>();

  /** `moved`: what is `placed` of Forwardings of the Service has changed. */
  constructor(moved: ((service: string) => void) | undefined) {
    this.#moved = moved;
  }

  get followed(): Iterable<Forwarding> {
    return this.#followed.values();
  }

  /** A change of a Forwarding is in force. */
  changed(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    const asks = next?.deal?.balance === 'least-connections';
    if (asks && next.cluster.length > 1) {
      this.#followed.set(next.key, next);
      return;
    }
    const { key } = (previous ?? next)!;
    if (!this.#followed.delete(key)) return;
    this.#mean.delete(key);
    // Slots of local endpoints alone may have followed it.
    if (this.placed.delete(key) && asks) this.#moved?.(serviceKey(next.servicePort));
  }

  begin(): void {
    this.#pass = new Map();
  }

  count(entries: ConntrackEntries, holderOf: (index: number) => Forwarding | undefined): void {
    for (let i = 0; i < entries.length; i += 1) {
      const holder = entries.isClosed(i) ? undefined : holderOf(i);
      if (holder === undefined || !this.#followed.has(holder.key)) continue;
      const { cluster, key } = holder;
      const counts = this.#pass.get(key) ?? new Map<EndpointKey, number>();
      const endpoint = entries.key(i, 'replySource');
      // A range has the same port at all its endpoints, and entries one of the range.
      const isOfRange = rangeIn(holder) !== undefined;
      addCount(counts, isOfRange ? withPortOf(endpoint, cluster.key(0)) : endpoint);
      this.#pass.set(key, counts);
    }
  }

  /** The pass has seen all entries. */
  end(): void {
    let [compared, slots] = [0, 0];
    for (const [key, forwarding] of [...this.#followed]) {
      if (compared >= comparedMost) return;
      const { cluster, frontends, servicePort } = forwarding;
      const mean = nextMean(this.#mean.get(key) ?? none, this.#pass.get(key) ?? none);
      this.#mean.set(key, mean);
      if (mean.size > 0) compared += cluster.length;
      const placed = nextPlaced(cluster, this.placed.get(key) ?? none, mean);
      // One that has to wait stays before those that need not move.
      if (placed !== undefined && slots >= slotsMost) continue;
      this.#followed.delete(key);
      this.#followed.set(key, forwarding);
      if (placed === undefined) continue;
      slots += slotsOf(forwarding, 'cluster').length * frontends.length;
      this.placed.set(key, placed);
      this.#moved?.(serviceKey(servicePort));
    }
  }
}

function nextMean(mean: Counts, counts: Counts): Counts {
  const next = new Map<EndpointKey, number>();
  for (const key of new Set([...mean.keys(), ...counts.keys()])) {
    const had = mean.get(key) ?? 0;
    const has = had + passPart * ((counts.get(key) ?? 0) - had);
    if (has >= meanMin) next.set(key, has);
  }
  return next;
}

/** What slots are to follow instead of `placed`; undefined: they stay. */
function nextPlaced(list: EndpointList, placed: Counts, mean: Counts): Counts | undefined {
  if (mean.size === 0) return placed.size === 0 ? undefined : none;
  const loadsOf = (counts: Counts): number[] =>
    Array.from({ length: list.length }, (_, i) => (counts.get(list.key(i)) ?? 0) + fewConnections);
  const sum = (loads: readonly number[]): number => loads.reduce((a, b) => a + b);
  const [before, after] = [loadsOf(placed), loadsOf(mean)];
  const growth = sum(after) / sum(before);
  const same = before.map((load) => load * growth);
  const isMoved = after.some((load, i) => {
    const most = Math.max(partMoved * same[i]!, deviationsMoved * Math.sqrt(same[i]!));
    return Math.abs(load - same[i]!) > most;
  });
  if (!isMoved) return undefined;
  // All of the way, where connections are short, would lead back and forth for ever.
  const next = after.map((load, i) => Math.max(0, (load + same[i]!) / 2 - fewConnections));
  return new Map(next.map((count, i) => [list.key(i), count]));
}

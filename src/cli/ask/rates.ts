/** Rates per second, from two readings of the traffic counters. */
import type { Traffic } from '../../ask/traffic.ts';

type Item = Traffic['items'][number];
type Endpoint = NonNullable<Item['endpoints']>[number];

export interface Rates {
  /** RFC 3339. */
  readonly time: string;
  /** The time between the two readings. */
  readonly seconds: number;
  readonly items: readonly ItemRate[];
  readonly failing: Traffic['failing'];
}

export interface ItemRate extends Omit<Item, 'refusals' | 'endpoints'> {
  readonly connectionsPerSecond: number;
  readonly refusals: readonly { readonly reason: string; readonly packetsPerSecond: number }[];
  readonly endpoints?: readonly EndpointRate[];
}

interface EndpointRate extends Pick<Endpoint, 'endpoint' | 'connections' | 'outcomes'> {
  readonly connectionsPerSecond: number;
}

export type Sort = 'connections' | 'refusals' | 'name';

/** Undefined if both readings are the same: the kernel was not read in between. */
export function ratesOf(before: Traffic, after: Traffic, sort: Sort): Rates | undefined {
  const seconds = (Date.parse(after.time) - Date.parse(before.time)) / 1000;
  if (seconds <= 0) return undefined;
  const earlier = new Map(before.items.map((item) => [keyOf(item), item]));
  const items = after.items.map((item) => rateOf(earlier.get(keyOf(item)), item, seconds));
  return { time: after.time, seconds, items: items.sort(orders[sort]), failing: after.failing };
}

export function refusalsPerSecond({ refusals }: ItemRate): number {
  return refusals.reduce((sum, { packetsPerSecond }) => sum + packetsPerSecond, 0);
}

/** `default/web`. Traffic to no Service has a name in brackets, which no Service can have. */
export function nameOf({ namespace, service }: Pick<Item, 'namespace' | 'service'>): string {
  return service === '' ? '(no Service)' : `${namespace}/${service}`;
}

const orders: Readonly<Record<Sort, (a: ItemRate, b: ItemRate) => number>> = {
  connections: (a, b) => b.connectionsPerSecond - a.connectionsPerSecond || byName(a, b),
  refusals: (a, b) => refusalsPerSecond(b) - refusalsPerSecond(a) || byName(a, b),
  name: byName,
};

function byName(a: Item | ItemRate, b: Item | ItemRate): number {
  return keyOf(a) < keyOf(b) ? -1 : 1;
}

function keyOf(item: Omit<Item, 'refusals' | 'endpoints'>): string {
  const { family, namespace, port, protocol, service } = item;
  // A space sorts before all characters of names.
  return [namespace, service, port, protocol, family].join(' ');
}

function rateOf(before: Item | undefined, after: Item, seconds: number): ItemRate {
  const { endpoints, refusals, ...rest } = after;
  const packets = new Map(before?.refusals.map((one) => [one.reason, one.packets]));
  const sent = new Map(before?.endpoints?.map((one) => [one.endpoint, one.connections]));
  return {
    ...rest,
    connectionsPerSecond: perSecond(before?.connections, after.connections, seconds),
    refusals: refusals.map(({ packets: now, reason }) => {
      return { reason, packetsPerSecond: perSecond(packets.get(reason), now, seconds) };
    }),
    ...(endpoints && {
      endpoints: endpoints
        .map((one) => ({
          ...one,
          connectionsPerSecond: perSecond(sent.get(one.endpoint), one.connections, seconds),
        }))
        .sort((a, b) => b.connectionsPerSecond - a.connectionsPerSecond),
    }),
  };
}

/** A value below the previous one means that the counter was reset to 0. */
function perSecond(before: number | undefined, after: number, seconds: number): number {
  const more = before === undefined || after < before ? after : after - before;
  return Math.round((more / seconds) * 10) / 10;
}

/** `fairlead top`: connections per second by Service and endpoint, and refusals by reason, live. */
import type { Traffic } from '../../ask/traffic.ts';
import { columnsText } from '../../serve/text.ts';
import type { Given, Io, Run } from '../command.ts';
import { exitCodes, UsageError } from '../errors.ts';
import { whileRead } from '../reader.ts';
import { askPages, type Query } from './client.ts';
import { namespaceOf, readServiceName } from './names.ts';
import { serverOf } from './server.ts';

type Outcomes = NonNullable<ItemRate['endpoints']>[number]['outcomes'];

interface TopOptions {
  readonly server: string;
  readonly query: Query<'traffic'>;
  readonly intervalMs: number;
  readonly count: number;
  readonly sort: Sort;
  readonly asJson: boolean;
  readonly headings: boolean;
}

const intervalDefault = 2;
/** The rows shown without a terminal, and the lines of a terminal that are not rows. */
const rowsDefault = 20;
const otherLines = 3;

/** Resolves to the exit code after the number of intervals that `--count` sets. */
export const run: Run = async (given, io) => {
  await follow(await optionsOf(given), io);
  return exitCodes.healthy;
};

/** Until all intervals are over, or the output is no longer read. */
function follow(options: TopOptions, io: Io): Promise<void> {
  return whileRead(io, 'top', async (reader) => {
    let before = await askPages(options.server, 'traffic', options.query);
    for (let printed = 0; printed < options.count; ) {
      await reader.pause(options.intervalMs);
      if (reader.signal.aborted) break;
      const after = await askPages(options.server, 'traffic', options.query);
      const rates = ratesOf(before, after, options.sort);
      before = after;
      if (rates === undefined) continue;
      if (!io.stdout.isPending) printRates(rates, options, io);
      printed += 1;
    }
  });
}

/** Rejects with a UsageError. */
async function optionsOf(given: Given): Promise<TopOptions> {
  const { count, interval, 'no-headers': noHeaders, output, sort = 'connections' } = given.values;
  const [word] = given.words;
  const { name: service, namespace = namespaceOf(given) } =
    word === undefined ? {} : readServiceName(word, given);
  return {
    query: { ...(service && { service }), ...(namespace && { namespace }) },
    intervalMs: 1000 * numberOf('interval', interval, intervalDefault),
    count: numberOf('count', count, Number.POSITIVE_INFINITY),
    // The table of commands has no other value.
    sort: sort as Sort,
    asJson: output === 'json',
    headings: noHeaders === undefined,
    server: await serverOf(given),
  };
}

/** The least interval is two seconds, because the process reads the kernel no more often. */
function numberOf(name: 'interval' | 'count', text: string | undefined, standard: number): number {
  if (text === undefined) return standard;
  const least = name === 'interval' ? intervalDefault : 1;
  const value = Number(text);
  const isFit =
    value >= least && value <= 86_400 && (name === 'interval' || Number.isInteger(value));
  if (isFit) return value;
  throw new UsageError(`--${name} must be a number from ${least} to 86400, not "${text}"`);
}

function printRates(rates: Rates, { asJson, headings }: TopOptions, { stdout }: Io): void {
  if (asJson) {
    stdout.write(`${JSON.stringify(rates)}\n`);
    return;
  }
  const rowsMax = stdout.isTTY
    ? Math.max(1, (stdout.rows ?? rowsDefault) - otherLines)
    : rowsDefault;
  const text = print(rates, rowsMax, headings);
  stdout.redraw(stdout.isTTY ? text : `${text}\n`);
}

function print({ items, time }: Rates, rowsMax: number, headings: boolean): string {
  const opened = items.reduce((sum, item) => sum + item.connectionsPerSecond, 0);
  const refused = items.reduce((sum, item) => sum + refusalsPerSecond(item), 0);
  const head = `${time}  ${rate(opened)} connections/s, ${rate(refused)} packets refused/s\n`;
  const rows = items.filter(isBusy).flatMap((item) => [row(item), ...endpointRows(item)]);
  if (rows.length === 0) return head;
  const rest = rows.length - rowsMax;
  return [
    head,
    columnsText([...(headings ? [titlesOf(items[0]!)] : []), ...rows.slice(0, rowsMax)]),
    rest > 0 ? `and ${rest} more\n` : '',
  ].join('');
}

function isBusy(item: ItemRate): boolean {
  return (
    item.endpoints !== undefined ||
    item.connectionsPerSecond + (item.bytesPerSecond ?? 0) + refusalsPerSecond(item) > 0
  );
}

function titlesOf(item: ItemRate): string[] {
  const numbers = cells(item, 'CONN/S', 'REFUSED/S', 'CONNS', 'BYTES/S');
  return [...numbers, 'SERVICE', 'PORT', 'FAMILY', 'DETAILS'];
}

function row(item: ItemRate): string[] {
  const { bytesPerSecond = 0, connections, connectionsPerSecond, family, port, protocol } = item;
  const reasons = item.refusals.filter(({ packetsPerSecond }) => packetsPerSecond > 0);
  const rates = [connectionsPerSecond, refusalsPerSecond(item), bytesPerSecond].map(rate);
  return [
    ...cells(item, rates[0]!, rates[1]!, String(connections), rates[2]!),
    nameOf(item),
    [port, protocol].filter(Boolean).join('/'),
    family,
    reasons.map(({ packetsPerSecond, reason }) => `${reason} ${rate(packetsPerSecond)}`).join(', '),
  ];
}

function endpointRows(item: ItemRate): string[][] {
  const { endpoints = [] } = item;
  return endpoints.map(({ connections, connectionsPerSecond, endpoint, outcomes }) => [
    ...cells(item, rate(connectionsPerSecond), '', String(connections), ''),
    ...[`  to ${endpoint}`, '', '', outcomes === undefined ? '' : outcomeWords(outcomes)],
  ]);
}

function outcomeWords({ answered, reset, unanswered }: NonNullable<Outcomes>): string {
  return `answered ${answered}, reset ${reset}, unanswered ${unanswered}`;
}

/** The last one only where bytes are counted. */
function cells({ bytesPerSecond }: ItemRate, ...texts: readonly string[]): string[] {
  return texts
    .slice(0, bytesPerSecond === undefined ? -1 : undefined)
    .map((text) => text.padStart(9));
}

function rate(value: number): string {
  return value.toFixed(1);
}

type Item = Traffic['items'][number];
type Endpoint = NonNullable<Item['endpoints']>[number];

/** Rates per second, from two readings of the traffic counters. */
interface Rates {
  /** RFC 3339. */
  readonly time: string;
  /** The time between the two readings. */
  readonly seconds: number;
  readonly items: readonly ItemRate[];
}

interface ItemRate extends Omit<Item, 'refusals' | 'endpoints'> {
  readonly connectionsPerSecond: number;
  readonly bytesPerSecond?: number | undefined;
  readonly refusals: readonly { readonly reason: string; readonly packetsPerSecond: number }[];
  readonly endpoints?: readonly EndpointRate[];
}

interface EndpointRate extends Pick<Endpoint, 'endpoint' | 'connections' | 'outcomes'> {
  readonly connectionsPerSecond: number;
}

type Sort = 'bytes' | 'connections' | 'refusals' | 'name';

/** Undefined if both readings are the same: the kernel was not read in between. */
export function ratesOf(before: Traffic, after: Traffic, sort: Sort): Rates | undefined {
  const seconds = (Date.parse(after.time) - Date.parse(before.time)) / 1000;
  if (seconds <= 0) return undefined;
  const earlier = new Map(before.items.map((item) => [keyOf(item), item]));
  const items = after.items.map((item) => rateOf(earlier.get(keyOf(item)), item, seconds));
  return { time: after.time, seconds, items: items.sort(orders[sort]) };
}

function refusalsPerSecond({ refusals }: ItemRate): number {
  return refusals.reduce((sum, { packetsPerSecond }) => sum + packetsPerSecond, 0);
}

/** `default/web`. Traffic to no Service has a name in brackets, which no Service can have. */
function nameOf({ namespace, service }: Pick<Item, 'namespace' | 'service'>): string {
  return service === '' ? '(no Service)' : `${namespace}/${service}`;
}

const orders: Readonly<Record<Sort, (a: ItemRate, b: ItemRate) => number>> = {
  bytes: (a, b) => (b.bytesPerSecond ?? 0) - (a.bytesPerSecond ?? 0) || byName(a, b),
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
    bytesPerSecond: rest.bytes && perSecond(before?.bytes, rest.bytes, seconds),
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

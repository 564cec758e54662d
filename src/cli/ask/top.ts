/** `fairlead top`: connections per second by Service and endpoint, and refusals by reason, live. */
import type { Traffic } from '../../ask/traffic.ts';
import { counted } from '../../ask/words.ts';
import { columnsText } from '../../serve/text.ts';
import type { Given, Io, Run } from '../command.ts';
import { exitCodes, UsageError } from '../errors.ts';
import { whileRead } from '../reader.ts';
import { askPages, type Query } from './client.ts';
import { namespaceOf, readServiceName } from './names.ts';
import {
  type ItemRate,
  nameOf,
  type Rates,
  ratesOf,
  refusalsPerSecond,
  type Sort,
} from './rates.ts';
import { serverOf } from './server.ts';

type Outcomes = NonNullable<ItemRate['endpoints']>[number]['outcomes'];
type Failing = Traffic['failing'][number];

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

function print({ failing, items, time }: Rates, rowsMax: number, headings: boolean): string {
  const opened = items.reduce((sum, item) => sum + item.connectionsPerSecond, 0);
  const refused = items.reduce((sum, item) => sum + refusalsPerSecond(item), 0);
  const head = `${time}  ${rate(opened)} connections/s, ${rate(refused)} packets refused/s\n`;
  const rows = items.filter(isBusy).flatMap((item) => [row(item), ...endpointRows(item)]);
  if (rows.length === 0) return head;
  const rest = rows.length - rowsMax;
  return [
    head,
    columnsText([...(headings ? [titles] : []), ...rows.slice(0, rowsMax)]),
    rest > 0 ? `and ${rest} more\n` : '',
    ...failing.slice(0, failingShown).map(failingLine),
    failing.length > failingShown ? `and ${failing.length - failingShown} more endpoints\n` : '',
  ].join('');
}

const failingShown = 5;

/** An endpoint that accepts nothing. */
function failingLine({ endpoint, failed, namespace, reset, service }: Failing): string {
  const refused = Math.min(reset, failed);
  const how = [
    ...(refused > 0 ? [`${refused} refused`] : []),
    ...(failed > refused ? [`${failed - refused} unanswered`] : []),
  ];
  return (
    `${namespace}/${service}: ${endpoint} has accepted none of its last ` +
    `${counted(failed, 'connection')} (${how.join(', ')})\n`
  );
}

function isBusy(item: ItemRate): boolean {
  return (
    item.endpoints !== undefined || item.connectionsPerSecond > 0 || refusalsPerSecond(item) > 0
  );
}

const width = 9;
const titles = [
  ...['CONN/S', 'REFUSED/S', 'CONNS'].map((title) => title.padStart(width)),
  ...['SERVICE', 'PORT', 'FAMILY', 'DETAILS'],
];

function row(item: ItemRate): string[] {
  const { connections, connectionsPerSecond, family, port, protocol, refusals } = item;
  const reasons = refusals.filter(({ packetsPerSecond }) => packetsPerSecond > 0);
  return [
    cell(rate(connectionsPerSecond)),
    cell(rate(refusalsPerSecond(item))),
    cell(String(connections)),
    nameOf(item),
    [port, protocol].filter(Boolean).join('/'),
    family,
    reasons.map(({ packetsPerSecond, reason }) => `${reason} ${rate(packetsPerSecond)}`).join(', '),
  ];
}

function endpointRows({ endpoints = [] }: ItemRate): string[][] {
  return endpoints.map(({ connections, connectionsPerSecond, endpoint, outcomes }) => [
    ...[cell(rate(connectionsPerSecond)), cell(''), cell(String(connections))],
    ...[`  to ${endpoint}`, '', '', outcomes === undefined ? '' : outcomeWords(outcomes)],
  ]);
}

function outcomeWords({ answered, reset, unanswered }: NonNullable<Outcomes>): string {
  return `answered ${answered}, reset ${reset}, unanswered ${unanswered}`;
}

function cell(text: string): string {
  return text.padStart(width);
}

function rate(value: number): string {
  return value.toFixed(1);
}

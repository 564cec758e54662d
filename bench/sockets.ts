/**
 * What does mode userspace cost, where the process itself carries connections: memory for those
 * that neither side reads and for idle ones, and the rates of connections and bytes? Compared with
 * direct connections, with a relay of C++ that does no more than carry, and with `pipe` of Node.js.
 */
import { execFileSync } from 'node:child_process';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { buildProduct } from './lib/api-rig.ts';
import type { Extent } from './lib/extent.ts';
import { RelayStage, residentBytes, type Way } from './lib/relays.ts';
import { number, ratio, table } from './lib/stats.ts';

const rounds = 5;
const measureMs = 500;
/** How long buffers fill, and how often they are looked at. */
const fillMs = 5000;
const sampleMs = 50;
const mega = 1024 ** 2;
const kilo = 1024;

/** Connections that neither side reads, and how many client addresses they are of. */
const stalled = [
  [50, 1],
  [200, 1],
  [200, 8],
] as const;
const wholeStalled = [...stalled, [800, 1], [800, 8]] as const;
const idleConnections = 2000;
const sizes = [16, 256] as const;

export async function sockets(extent: Extent): Promise<string> {
  execFileSync('sh', [join(resolve(import.meta.dirname, '..'), 'scripts', 'build-bench')]);
  buildProduct();
  const stage = new RelayStage();
  try {
    const ways = await stage.open();
    const relays = ways.filter(({ pid }) => pid !== undefined);
    const rates = measureRates(stage, ways);
    const idle = await measureIdle(stage, relays);
    const full = await measureStalled(stage, relays, extent);
    return [full, idle, rates].join('\n\n');
  } finally {
    stage.close();
  }
}

interface Held {
  /** The most, and at the end. */
  readonly kernelMax: number;
  readonly kernel: number;
  /** More than before. */
  readonly processMax: number;
}

async function hold(
  stage: RelayStage,
  way: Way,
  how: 'idle' | 'push',
  connections: number,
  clients: number,
): Promise<Held> {
  const before = residentBytes(way.pid!);
  return stage.holding(how, way, connections, clients, async () => {
    let [kernel, kernelMax, processMax] = [0, 0, 0];
    const endMs = performance.now() + fillMs;
    while (performance.now() < endMs) {
      kernel = stage.kernelBytes();
      kernelMax = Math.max(kernelMax, kernel);
      processMax = Math.max(processMax, residentBytes(way.pid!) - before);
      await sleep(sampleMs);
    }
    return { kernel, kernelMax, processMax };
  });
}

async function measureStalled(
  stage: RelayStage,
  relays: readonly Way[],
  extent: Extent,
): Promise<string> {
  const rows: string[][] = [];
  for (const [connections, clients] of extent === 'whole' ? wholeStalled : stalled) {
    let ofRelay: Held | undefined;
    for (const way of relays) {
      const held = await hold(stage, way, 'push', connections, clients);
      ofRelay ??= held;
      rows.push([
        `${connections} of ${clients === 1 ? '1 client' : `${clients} clients`}`,
        way.name,
        ...[held.kernelMax, held.kernel].map((bytes) => number(bytes / mega)),
        number(held.kernel / connections / kilo),
        ratio(held.kernel, ofRelay.kernel),
        number(held.processMax / mega),
      ]);
    }
  }
  const head = [
    ...['connections', 'through', 'kernel MiB at most', `after ${fillMs / 1000} s`],
    ...['KiB a connection', 'of relay', 'process MiB more'],
  ];
  const what = 'Connections that neither side reads, and that are opened again when they end';
  return `${what}\n\n${table(head, rows)}`;
}

async function measureIdle(stage: RelayStage, relays: readonly Way[]): Promise<string> {
  const rows: string[][] = [];
  let ofRelay: Held | undefined;
  for (const way of relays) {
    const held = await hold(stage, way, 'idle', idleConnections, 1);
    ofRelay ??= held;
    const each = held.processMax / idleConnections / kilo;
    rows.push([
      way.name,
      number(held.kernel / mega),
      number(held.processMax / mega),
      number(each),
      ratio(held.processMax, ofRelay.processMax),
    ]);
  }
  const head = ['through', 'buffers MiB', 'process MiB more', 'KiB a connection', 'of relay'];
  const what = `${idleConnections.toLocaleString('en')} idle connections`;
  return `${what}\n\n${table(head, rows)}`;
}

const kinds = ['ask', 'stream'] as const;

interface Sum {
  perSecond: number;
  processorSeconds: number;
  count: number;
}

/** The best rate, and the processor time of all rounds. */
function measureRates(stage: RelayStage, ways: readonly Way[]): string {
  const rows: Record<(typeof kinds)[number], string[][]> = { ask: [], stream: [] };
  for (const connections of sizes) {
    for (const kind of kinds) {
      const sums = ways.map((): Sum => ({ perSecond: 0, processorSeconds: 0, count: 0 }));
      for (let round = 0; round < rounds; round += 1) {
        for (const [i, way] of ways.entries()) {
          const found = stage.measure(kind, way, connections, measureMs);
          const sum = sums[i]!;
          sum.perSecond = Math.max(sum.perSecond, found.perSecond);
          sum.processorSeconds += found.processorSeconds;
          sum.count += found.count;
        }
      }
      const unit = kind === 'ask' ? 1 : 1e6;
      const shown = (rate: number): number => (kind === 'ask' ? rate : (rate * 8) / 1e9);
      const each = (sum: Sum): number => (sum.processorSeconds * 1e6 * unit) / sum.count;
      const [direct, relay] = sums;
      for (const [i, { name, pid }] of ways.entries()) {
        const sum = sums[i]!;
        const spent = [number(each(sum)), ratio(each(sum), each(relay!))];
        rows[kind].push([
          ...[String(connections), name, number(shown(sum.perSecond))],
          ratio(sum.perSecond, direct!.perSecond),
          ratio(sum.perSecond, relay!.perSecond),
          ...(pid === undefined ? ['–', '–'] : spent),
        ]);
      }
    }
  }
  const of = ['of direct', 'of relay'];
  const measured = `best of ${rounds} rounds of ${measureMs} ms`;
  const best = `${measured}; processor time of the process, of all rounds`;
  const head = (rate: string, time: string) => [
    'at a time',
    'through',
    rate,
    ...of,
    time,
    'of relay',
  ];
  return [
    `New connections, each with 64 bytes that come back; ${best}`,
    table(head('connections/s', 'µs each'), rows.ask),
    `Bytes that flow on all connections; ${best}`,
    table(head('Gbit/s', 'µs a MB'), rows.stream),
  ].join('\n\n');
}

/**
 * What does the way to an endpoint cost: a new connection, a packet, a stream, a request, and the
 * processor's time for each? Client, node and server are network namespaces with two links. The
 * client connects directly, and to a ClusterIP through Fairlead's rules, with the kernel's short
 * cut for established connections (`fastPath: flowtable`), at connect time, through IPVS, and
 * through what kube-proxy itself programs (KUBE_PROXY names its binary). Each way has a stage of
 * its own, and they take turns, so that what others do on the machine hits all of them. What the
 * kernel lacks is named. Kernels with flowtables and IPVS:
 * `KUBE_PROXY=… npm run test:vm -- --only 6.1-uml --memory 4096 -- node bench/main.ts path`.
 * 100,000 Services alone: `path --services 100000`.
 */
import { existsSync } from 'node:fs';
import { buildProduct } from './lib/api-rig.ts';
import type { Extent } from './lib/extent.ts';
import { type Contender, contenders, flowtable, kernelName, rules } from './lib/path-contenders.ts';
import type { Kind } from './lib/path-stage.ts';
import { type Costs, inTurns, median, withReady } from './lib/path-turns.ts';
import { number, ratio, table } from './lib/stats.ts';

const sizes = [10, 1000, 10_000] as const;
const wholeSizes = [...sizes, 100_000] as const;
const rounds = 5;
const measureMs = 250;
/** Many and short, and their median, since what is compared may differ by a hundredth. */
const closeRounds = 60;
const closeMs = 100;

/** `only`: measures this number of Services alone, without the comparison of the short cut. */
export async function path(extent: Extent, only?: number): Promise<string> {
  // A guest of test:vm has no compiler, and what was built outside.
  if (existsSync('/usr/bin/g++')) buildProduct();
  const all = await contenders();
  const parts = [
    `The way to an endpoint, on ${kernelName()}; best of ${rounds} rounds of ${measureMs} ms`,
  ];
  const usual = extent === 'whole' ? wholeSizes : sizes;
  for (const services of only === undefined ? usual : [only]) {
    parts.push(await measureSize(all, services));
  }
  if (
    only === undefined &&
    all.some(({ lack, name }) => name === flowtable && lack(1) === undefined)
  ) {
    parts.push(await measureShortCut(all));
  }
  return parts.join('\n\n');
}

const kinds: readonly Kind[] = ['connect', 'packets', 'stream', 'ask'];

async function measureSize(all: readonly Contender[], services: number): Promise<string> {
  const lacking = all.filter(({ lack }) => lack(services) !== undefined);
  const costs = new Map<string, Costs>();
  await withReady(
    all.filter((one) => !lacking.includes(one)),
    services,
    (ready) => {
      const measured = inTurns(ready, kinds, rounds, measureMs);
      for (const [name, of] of measured) costs.set(name, of);
    },
  );
  const direct = costs.get('direct')!;
  const rows: string[][] = [];
  const processor: string[][] = [];
  for (const { lack, name } of all) {
    const cost = costs.get(name);
    const because = lack(services);
    if (cost === undefined) {
      rows.push([name, because!, ...Array(7).fill('')]);
      continue;
    }
    const rate = (kind: Kind, unit = 1): string[] => {
      const perSecond = cost[kind].perSecond;
      return [number(perSecond / unit), ratio(perSecond, direct[kind].perSecond)];
    };
    const { p50Us } = cost.ask;
    const asked = [number(p50Us), ratio(p50Us, direct.ask.p50Us)];
    const bytesOfGbit = 1e9 / 8;
    rows.push([
      ...[name, ...rate('connect'), ...rate('packets'), ...rate('stream', bytesOfGbit)],
      ...asked,
    ]);
    const spent = (kind: Kind, unit = 1): string[] => {
      const us = cost[kind].processorUs;
      return [number(us * unit), ratio(us, direct[kind].processorUs)];
    };
    const megabyte = 1e6;
    processor.push([
      ...[name, ...spent('connect'), ...spent('packets'), ...spent('stream', megabyte)],
      ...spent('ask'),
    ]);
  }
  const columns = (names: readonly string[]) => names.flatMap((name) => [name, 'of direct']);
  const rates = ['connections/s', 'packets/s', 'stream Gbit/s', 'request p50 µs'];
  const times = ['a connection', 'a packet', 'a megabyte', 'a request'];
  return [
    `Services: ${services.toLocaleString('en')}`,
    table(['way', ...columns(rates)], rows),
    'Processor time of the machine, client and server included; µs',
    table(['way', ...columns(times)], processor),
  ].join('\n\n');
}

/** The gain of the fast path over rules alone, and its cost for short flows. */
async function measureShortCut(all: readonly Contender[]): Promise<string> {
  const names = ['direct', rules, flowtable];
  const rows: string[][] = [];
  await withReady(
    all.filter(({ name }) => names.includes(name)),
    10,
    (ready) => {
      const add = (what: string, kind: Kind, costs: ReadonlyMap<string, Costs>, unit = 1): void => {
        const [direct, slow, fast] = names.map((name) => costs.get(name)![kind].perSecond);
        const figures = [direct!, slow!, fast!].map((one) => number(one / unit));
        rows.push([what, ...figures, ratio(fast!, slow!)]);
      };
      for (const family of ['IPv4', 'IPv6'] as const) {
        const what = ['packets', 'stream', 'flows'] as const;
        const costs = inTurns(ready, what, closeRounds, closeMs, family, median);
        add(`UDP packets of 18 bytes/s, ${family}`, 'packets', costs);
        add(`TCP stream, Gbit/s, ${family}`, 'stream', costs, 1e9 / 8);
        add(`conversations of 20 packets/s, ${family}`, 'flows', costs);
      }
    },
  );
  const head = ['what', 'direct', rules, flowtable, 'of rules'];
  const what = `The short cut compared with rules alone, 10 Services; median of ${closeRounds} rounds of ${closeMs} ms`;
  return `${what}\n\n${table(head, rows)}`;
}

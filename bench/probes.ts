/**
 * How long do probes and changes wait while a port is flooded? It runs the product and the fake API
 * server like api-change.ts, with 200 changes a second, and requests /livez 20 times a second over
 * new connections. Each flood has 128 connections. A quiet round and a flood of another program's
 * port are measured in the same run: additional delays in the latter are the machine's.
 */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FakeApi } from '../test/fake/api-server-process.ts';
import { buildProduct, withCluster, withProduct } from './lib/api-rig.ts';
import { Asker } from './lib/asker-process.ts';
import { type Size, sizeName } from './lib/cluster.ts';
import type { Extent } from './lib/extent.ts';
import { controlPort, type Flood, Flooder, floodKinds } from './lib/flooder.ts';
import type { Product } from './lib/product.ts';
import { number, ratio, type Summary, summarise, table } from './lib/stats.ts';

const size: Size = { services: 1000, endpoints: 10 };
const seconds = 4;
const asksPerSecond = 20;
const healthCheckNodePort = 30_999;

/** Ports that we open. */
const ports = [
  { name: 'health', port: 10_256, path: '/healthz' },
  { name: '/metrics', port: 10_249, path: '/metrics' },
  { name: 'status', port: 10_249, path: '/fairlead/v1/status' },
  { name: 'diff', port: 10_249, path: '/fairlead/v1/diff' },
  { name: 'health-check node port', port: healthCheckNodePort, path: '/' },
] as const;

interface Case {
  readonly name: string;
  readonly flood?: Flood;
}

interface Result {
  readonly livez: Summary;
  readonly change: Summary;
  readonly rssMB: number;
  readonly connections: number;
}

interface Stage {
  readonly api: FakeApi;
  readonly asker: Asker;
  readonly flooder: Flooder;
  readonly product: Product;
}

export async function probes(extent: Extent): Promise<string> {
  buildProduct();
  const rows = await withCluster(size, (api, namespace) =>
    withProduct(api, namespace, async (product) => {
      const asker = await Asker.start(namespace);
      const flooder = new Flooder(namespace);
      try {
        await api.ask({ do: 'apply', object: balanced });
        return await rowsOf({ api, asker, flooder, product }, casesOf(extent));
      } finally {
        await flooder.close();
        await asker.close();
      }
    }),
  );
  const head = ['flood', 'livez p50', 'p99', 'change p50', 'p99', 'beside quiet', 'RSS', 'conns'];
  const title = `128 connections flood a port, while 200 changes a second come, at ${sizeName(size)}; ms, MB`;
  return [title, table(head, rows)].join('\n\n');
}

const balanced = {
  kind: 'Service',
  metadata: { namespace: 'default', name: 'balanced', uid: 'balanced' },
  spec: {
    type: 'LoadBalancer',
    clusterIP: '10.96.255.1',
    clusterIPs: ['10.96.255.1'],
    externalTrafficPolicy: 'Local',
    healthCheckNodePort,
    ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 30_998 }],
  },
};

function casesOf(extent: Extent): readonly Case[] {
  const flooded = (name: string, some: Pick<Flood, 'kind' | 'port' | 'path' | 'sources'>): Case => {
    return { name, flood: { connections: 128, seconds: seconds + 1, ...some } };
  };
  const quiet: Case = { name: 'none' };
  const other = { port: controlPort, path: '/', sources: 100 };
  const sources = extent === 'whole' ? [1, 10, 100] : [100];
  const pipelined = ports.flatMap(({ name, path, port }) =>
    sources.map((count) =>
      flooded(`${name}, from ${count}`, { kind: 'pipelined', port, path, sources: count }),
    ),
  );
  const kinds = floodKinds.filter((kind) => kind !== 'pipelined');
  const others = (extent === 'whole' ? ports : [ports[1]]).flatMap(({ name, path, port }) =>
    kinds.map((kind) => flooded(`${name}: ${kind}`, { kind, port, path, sources: 10 })),
  );
  const control = flooded("another program's port", { kind: 'pipelined', ...other });
  return [quiet, control, ...pipelined, quiet, ...others, control, quiet];
}

async function rowsOf(stage: Stage, cases: readonly Case[]): Promise<string[][]> {
  await measured(stage, cases[0]!);
  const results: { one: Case; result: Result }[] = [];
  for (const one of cases) results.push({ one, result: await measured(stage, one) });
  const quiet = results.filter(({ one }) => one.flood === undefined);
  const quietP99 = Math.max(...quiet.map(({ result }) => result.change.p99));
  return results.map(({ one, result }) => [
    one.name,
    number(result.livez.p50),
    number(result.livez.p99),
    number(result.change.p50),
    number(result.change.p99),
    ratio(result.change.p99, quietP99),
    number(result.rssMB),
    number(result.connections),
  ]);
}

async function measured({ api, asker, flooder, product }: Stage, one: Case): Promise<Result> {
  await product.reset();
  const flooding = one.flood && flooder.flood(one.flood);
  await sleep(500);
  const churning = api.ask({ do: 'churn', perSecond: 200, seconds });
  const memory = new HighestMemory(product.pid);
  const paths = ['http://127.0.0.1:10256/livez'];
  const asking = { paths, perSecond: asksPerSecond, count: asksPerSecond * seconds };
  const { tookMs } = await asker.ask(asking);
  await churning;
  const rssMB = memory.stop();
  const flooded = await flooding;
  const { socketToAck: change } = await product.settled();
  return { livez: summarise(tookMs), change, rssMB, connections: flooded?.connections ?? 0 };
}

/** The most memory that a process had, looked at ten times a second. */
class HighestMemory {
  #highestMB = 0;
  readonly #timer: NodeJS.Timeout;

  constructor(pid: number) {
    this.#timer = setInterval(() => {
      const [, kilobytes] =
        /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
      this.#highestMB = Math.max(this.#highestMB, Number(kilobytes) / 1024);
    }, 100);
  }

  stop(): number {
    clearInterval(this.#timer);
    return this.#highestMB;
  }
}

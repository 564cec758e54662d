/** What does it cost to answer Prometheus, the first time and later? */
import { setTimeout as sleep } from 'node:timers/promises';
import type { FakeApi } from '../test/fake/api-server-process.ts';
import { buildProduct, withCluster } from './lib/api-rig.ts';
import { Asker } from './lib/asker-process.ts';
import { type Size, sizeName } from './lib/cluster.ts';
import { used } from './lib/followers.ts';
import { Product } from './lib/product.ts';
import { number, summarise, table } from './lib/stats.ts';

const size: Size = { services: 8000, endpoints: 10 };
const count = 30;
/** Each changes a Service, whose problems are looked for again. */
const changesBetween = 20;
/** Answers that are asked for sooner wait: the server makes one a second, for all who ask. */
const pauseMs = 1100;
/** The last one is the lower bound: two bytes from the same server. */
const paths = ['/metrics', '/healthz'] as const;

export async function scrape(): Promise<string> {
  buildProduct();
  const rows = await withCluster(size, async (api, namespace) => {
    // As nodes have one. Without it, each endpoint would be without a route, which is a problem.
    namespace.run('ip', ['route', 'add', 'default', 'dev', 'lo']);
    const product = new Product(namespace, api.kubeconfig, [], { isProbed: false });
    const asker = await Asker.start(namespace);
    try {
      await product.programmedMs;
      await sleep(5000);
      const found: string[][] = [];
      for (const path of paths)
        found.push([path, ...(await measure(path, { api, asker, product }))]);
      return found;
    } finally {
      await asker.close();
      await product.stop();
    }
  });
  const title = `Answers of the metrics server, at ${sizeName(size)}, ${changesBetween} changes between two; ms`;
  const head = ['', 'first answer', 'CPU of it', 'answer p50', 'CPU of each'];
  return `${title}\n\n${table(head, rows)}`;
}

interface Rig {
  readonly api: FakeApi;
  readonly asker: Asker;
  readonly product: Product;
}

async function measure(path: string, { api, asker, product }: Rig): Promise<string[]> {
  const asked = async () => {
    let tookMs = 0;
    const { all: cpuMs } = await used(product.pid, async () => {
      const answers = await asker.ask({ paths: [path], count: 1, perSecond: 1000 });
      tookMs = answers.tookMs[0]!;
    });
    return { cpuMs, tookMs };
  };
  const first = await asked();
  const later: (typeof first)[] = [];
  for (let i = 0; i < count; i += 1) {
    await api.ask({ do: 'replace', count: changesBetween });
    await sleep(pauseMs);
    later.push(await asked());
  }
  const p50 = summarise(later.map(({ tookMs }) => tookMs)).p50;
  const cpuMs = later.reduce((sum, one) => sum + one.cpuMs, 0) / count;
  return [first.tookMs, first.cpuMs, p50, cpuMs].map(number);
}

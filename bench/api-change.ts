/**
 * What does a change cost, from the API server to the kernel? It runs the product and the fake API
 * server as api-start.ts does, with protobuf and with JSON, and compares with the raw netlink loop.
 */

import type { FakeApi } from '../test/fake/api-server-process.ts';
import { buildProduct, type Form, forms, withCluster, withProduct } from './lib/api-rig.ts';
import { type Size, sizeName } from './lib/cluster.ts';
import type { ProbeReport } from './lib/probe.ts';
import type { Product } from './lib/product.ts';
import { rawLoad } from './lib/raw-load.ts';
import { number, table } from './lib/stats.ts';

const changesASecond = 200;
const changeSeconds = 5;
const bursts = [500, 6000] as const;
const rounds = 3;
const large: Size = { services: 8000, endpoints: 30 };
const sizes: readonly Size[] = [
  { services: 100, endpoints: 10 },
  large,
  { services: 44_000, endpoints: 1 },
  { services: 100_000, endpoints: 3 },
];

export async function apiChange(): Promise<string> {
  buildProduct();
  return [
    'One endpoint changed, 1,000 times: from the socket to the acknowledgement; ms',
    await changeTable(),
    `Endpoints replaced at once: from the last event to the last acknowledgement; ms, best of ${rounds}`,
    await burstTable(),
  ].join('\n\n');
}

async function changeTable(): Promise<string> {
  const rows: string[][] = [];
  for (const size of sizes) {
    const raw = await rawLoad(size, 1000, 1);
    for (const form of forms) {
      const { socketToAck, stages, longestTurn, eventLoop, cpuMs } = await measureChanges(
        size,
        form,
      );
      rows.push([
        sizeName(size),
        form,
        number(socketToAck.p50),
        number(socketToAck.p99),
        number(raw.replace.p50),
        number(raw.replace.p99),
        ...[stages.receive, stages.resolve, stages.encode, stages.commit].map(({ p50 }) =>
          number(p50),
        ),
        number(cpuMs / (changesASecond * changeSeconds)),
        number(longestTurn),
        number(eventLoop.max),
      ]);
    }
  }
  const parts = ['parse p50', 'resolve', 'encode', 'commit', 'CPU', 'turn', 'late'];
  return table(['cluster', 'form', 'p50', 'p99', 'raw p50', 'raw p99', ...parts], rows);
}

/** Makes a change every 5 ms, so that each is a batch of its own. */
function measureChanges(size: Size, form: Form): Promise<ProbeReport> {
  const perSecond = changesASecond;
  return withCluster(size, (api, namespace) =>
    withProduct(
      api,
      namespace,
      async (product) => {
        await api.ask({ do: 'churn', perSecond, seconds: 1 });
        await product.settled();
        await product.reset();
        await api.ask({ do: 'churn', perSecond, seconds: changeSeconds });
        return product.settled();
      },
      form,
    ),
  );
}

async function burstTable(): Promise<string> {
  const raw = await rawLoad(large, 1, rounds, bursts);
  const rows = await withCluster(large, (api, namespace) =>
    withProduct(api, namespace, async (product) => {
      await api.ask({ do: 'replace', count: 1000 });
      await product.settled();
      await product.reset();
      const found: string[][] = [];
      for (const [i, count] of bursts.entries()) {
        found.push(await burstRow(api, product, count, raw.atOnceMs[i]!));
      }
      return found;
    }),
  );
  return table(
    ['endpoints', 'last event', 'p99 of all', 'raw loop', 'batches', 'turn', 'late'],
    rows,
  );
}

async function burstRow(
  api: FakeApi,
  product: Product,
  count: number,
  rawMs: number,
): Promise<string[]> {
  const reports: ProbeReport[] = [];
  for (let i = 0; i < rounds; i += 1) {
    await product.reset();
    await api.ask({ do: 'replace', count });
    const report = await product.settled();
    if (report.forwardings !== count) throw new Error(`${report.forwardings} of ${count} came`);
    reports.push(report);
  }
  const best = reports.reduce((a, b) => (a.lastEventToAck < b.lastEventToAck ? a : b));
  return [
    number(count),
    number(best.lastEventToAck),
    number(best.socketToAck.p99),
    number(rawMs),
    number(best.batches),
    number(best.longestTurn),
    number(best.eventLoop.max),
  ];
}

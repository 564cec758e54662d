/**
 * Does the product keep up with thousands of changes a second, and does its memory stay flat? It
 * runs the product and the fake API server as api-start.ts does.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { buildProduct, withCluster, withProduct } from './lib/api-rig.ts';
import type { Size } from './lib/cluster.ts';
import type { ProbeReport } from './lib/probe.ts';
import { number, table } from './lib/stats.ts';

const perSecond = 5000;
const parts = 6;
const secondsAPart = 10;
const large: Size = { services: 8000, endpoints: 30 };

export async function apiChurn(): Promise<string> {
  buildProduct();
  return `${perSecond} changes a second for ${parts * secondsAPart} s, one endpoint each; ms\n\n${await churnTable()}`;
}

async function churnTable(): Promise<string> {
  const row = (what: string, { triggerToAck, socketToAck, ...r }: ProbeReport): string[] => [
    what,
    number(r.forwardings),
    number(triggerToAck.p50),
    number(triggerToAck.p99),
    number(socketToAck.p99),
    number(r.batches),
    number(r.longestTurn),
    number(r.eventLoop.p99),
    number(r.eventLoop.max),
    number(r.cpuMs),
    number(r.rssMB),
    number(r.heapMB),
  ];
  const rows = await withCluster(large, (api, namespace) =>
    withProduct(api, namespace, async (product, { report }) => {
      const found = [row('load', report)];
      for (let part = 1; part <= parts; part += 1) {
        await product.reset();
        await api.ask({ do: 'churn', perSecond, seconds: secondsAPart });
        found.push(row(`${part * secondsAPart} s`, await product.report()));
      }
      await sleep(5000);
      found.push(row('5 s more, at rest', await product.settled()));
      return found;
    }),
  );
  const lag = ['p50 of all', 'p99 of all', 'p99 of batches'];
  const head = [
    'after',
    'committed',
    ...lag,
    'batches',
    'turn',
    'late p99',
    'late',
    'CPU',
    'RSS MB',
    'heap MB',
  ];
  return table(head, rows);
}

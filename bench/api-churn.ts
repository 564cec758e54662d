/**
 * Does the product keep up with thousands of changes a second, does its memory stay flat, and what
 * becomes of it when there are more changes than it can take? It runs the product and the fake API
 * server as api-start.ts does.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Churned } from '../test/fake/api-server-main.ts';
import type { FakeApi } from '../test/fake/api-server-process.ts';
import { buildProduct, withCluster, withProduct } from './lib/api-rig.ts';
import { Asker } from './lib/asker-process.ts';
import { type Size, sizeName } from './lib/cluster.ts';
import type { ProbeReport } from './lib/probe.ts';
import type { Product } from './lib/product.ts';
import { number, table } from './lib/stats.ts';

const perSecond = 5000;
const floodPerSecond = 20_000;
const secondsAPart = 10;
/** Real servers end a watch that lags by about as much. */
const unsentBytesMax = 8 << 20;
const asksASecond = 5;
const large: Size = { services: 8000, endpoints: 30 };
const most: Size = { services: 100_000, endpoints: 3 };

export async function apiChurn(): Promise<string> {
  buildProduct();
  return [
    `${number(perSecond)} changes a second at ${sizeName(large)}, one endpoint each; ms`,
    await churnTable(large, 6),
    `The same at ${sizeName(most)}`,
    await churnTable(most, 2),
    `${number(floodPerSecond)} changes a second at ${sizeName(large)}: more than it can take; ms`,
    await floodTable(),
  ].join('\n\n');
}

const head = ['committed', 'p50 of all', 'p99 of all', 'p99 of batches', 'batches'];
const burden = ['turn', 'late p99', 'late', 'CPU', 'RSS MB', 'heap MB'];

function cells({ triggerToAck, socketToAck, ...r }: ProbeReport): string[] {
  const lag = [triggerToAck.p50, triggerToAck.p99, socketToAck.p99];
  const loop = [r.longestTurn, r.eventLoop.p99, r.eventLoop.max];
  return [r.forwardings, ...lag, r.batches, ...loop, r.cpuMs, r.rssMB, r.heapMB].map(number);
}

async function churnTable(size: Size, parts: number): Promise<string> {
  const rows = await withCluster(size, (api, namespace) =>
    withProduct(api, namespace, async (product, { report }) => {
      const found = [['load', ...cells(report)]];
      await replaceAll(api, product, size);
      for (let part = 1; part <= parts; part += 1) {
        await product.reset();
        await api.ask({ do: 'churn', perSecond, seconds: secondsAPart });
        found.push([`${part * secondsAPart} s`, ...cells(await product.report())]);
      }
      await sleep(5000);
      found.push(['5 s more, at rest', ...cells(await product.settled())]);
      return found;
    }),
  );
  return table(['after', ...head, ...burden], rows);
}

/**
 * Gives each slice a replaced address, which has another length than those before. The fake server
 * encodes a slice again then, and never after that: its work is not part of the measurement.
 */
async function replaceAll(api: FakeApi, product: Product, { services }: Size): Promise<void> {
  await api.ask({ do: 'replace', count: services });
  await product.settled();
}

async function floodTable(): Promise<string> {
  const rows = await withCluster(large, (api, namespace) =>
    withProduct(api, namespace, async (product, { report }) => {
      await replaceAll(api, product, large);
      const asker = await Asker.start(namespace);
      const found = [['load', '–', '–', '–', ...cells(report)]];
      for (let part = 1; part <= 3; part += 1) {
        found.push([`${part * secondsAPart} s`, ...(await flooded(api, asker, product))]);
      }
      await asker.close();
      await product.reset();
      await sleep(5000);
      found.push(['5 s more, at rest', '–', '–', '–', ...cells(await product.settled())]);
      return found;
    }),
  );
  return table(['after', 'sent', 'watches ended', 'healthz', ...head, ...burden], rows);
}

/** Asks for the health of the node all the while, and fails when that is not good. */
async function flooded(api: FakeApi, asker: Asker, product: Product): Promise<string[]> {
  await product.reset();
  const churn = { do: 'churn', perSecond: floodPerSecond, seconds: secondsAPart, unsentBytesMax };
  const flood = api.ask(churn) as Promise<Churned>;
  const answers = asker.ask({
    paths: ['http://127.0.0.1:10256/healthz'],
    count: asksASecond * (secondsAPart - 1),
    perSecond: asksASecond,
  });
  const [{ changes, ended }, { tookMs }] = await Promise.all([flood, answers]);
  const slowest = Math.max(...tookMs);
  return [...[changes, ended, slowest].map(number), ...cells(await product.report())];
}

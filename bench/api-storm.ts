/**
 * What happens to a real API server when hundreds of nodes start together, what do their watches
 * cost it afterwards, and what would one connection for each node save (HTTP/2)? Nodes are requests
 * without a proxy behind them. KUBE_APISERVER and ETCD name the programs.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { contentTypes } from './lib/api-rig.ts';
import { type Size, sizeName } from './lib/cluster.ts';
import { inNamespace } from './lib/namespace.ts';
import { RealApi } from './lib/real-api.ts';
import type { Changed, Storm } from './lib/real-api-client.ts';
import { number, summarise, table } from './lib/stats.ts';
import type { Protocol } from './lib/watching-node.ts';

const size: Size = { services: 1000, endpoints: 10 };
const nodes = 200;
const changes = 100;
const settleMs = 5000;

interface Case {
  readonly protocol: Protocol;
  readonly spreadMs: number;
}

const cases: readonly Case[] = [
  { protocol: 'HTTP/1.1', spreadMs: 0 },
  { protocol: 'HTTP/2', spreadMs: 0 },
  { protocol: 'HTTP/1.1', spreadMs: 10_000 },
  { protocol: 'HTTP/2', spreadMs: 10_000 },
];

export async function apiStorm(): Promise<string> {
  return inNamespace('real-api', async (namespace) => {
    namespace.run('ip', ['link', 'set', 'lo', 'up']);
    const api = await RealApi.start(namespace);
    try {
      await api.ask({ do: 'load', ...size });
      const rows: string[][] = [];
      for (const one of cases) rows.push(await row(api, one));

      const what = `${nodes} nodes start at a real API server with ${sizeName(size)}, and then ${changes} slices change`;
      const lists = [
        'lists p50 s',
        'p99',
        'all',
        'refused',
        'broken',
        'MB',
        'server CPU s',
        'nodes CPU s',
      ];
      const rest = ['goroutines', 'memory MB', 'changes: server CPU s', 'nodes CPU s'];
      return `${what}\n\n${table(['protocol', 'within s', ...lists, ...rest], rows)}`;
    } finally {
      await api.close();
    }
  });
}

async function row(api: RealApi, { protocol, spreadMs }: Case): Promise<string[]> {
  const none = { do: 'storm', count: 0, spreadMs: 0, protocol, accept: contentTypes.protobuf };
  await api.ask<Storm>(none);
  await sleep(settleMs);
  const atRest = api.memory;
  const beforeLists = api.cpuSeconds;
  const storm = await api.ask<Storm>({ ...none, count: nodes, spreadMs });
  const listing = api.cpuSeconds - beforeLists;
  await sleep(settleMs);
  const { goroutines, liveBytes } = api.memory;
  const beforeChanges = api.cpuSeconds;
  const changed = await api.ask<Changed>({ do: 'change', count: changes });
  const took = summarise(storm.tookMs);
  return [
    protocol,
    number(spreadMs / 1000),
    ...[took.p50, took.p99, storm.ms].map((ms) => number(ms / 1000)),
    number(storm.refused),
    number(storm.broken),
    number(storm.bytes / 1e6),
    number(listing),
    number(storm.cpuMs / 1000),
    number(goroutines - atRest.goroutines),
    number((liveBytes - atRest.liveBytes) / 1e6),
    number(api.cpuSeconds - beforeChanges),
    number(changed.cpuMs / 1000),
  ];
}

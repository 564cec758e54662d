/**
 * What do JSON and protobuf cost a real API server, and us? It measures one list, a start, and
 * changes that fifty nodes watch. KUBE_APISERVER and ETCD name the programs.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { buildProduct, contentTypes, type Form, withProduct } from './lib/api-rig.ts';
import { inNamespace, type Namespace } from './lib/namespace.ts';
import { RealApi } from './lib/real-api.ts';
import type { VersionOf } from './lib/real-api-client.ts';
import { number, ratio, table } from './lib/stats.ts';

const services = 8000;
const endpoints = 30;
const rounds = 3;
const megabyte = 1e6;
const settleMs = 3000;

const forms: readonly Form[] = ['JSON', 'protobuf'];

interface Answer {
  readonly bytes: number;
  readonly ms: number;
}

/** A cost, in each of the two forms. */
interface Row {
  readonly what: string;
  readonly unit: string;
  readonly costs: readonly number[];
}

export async function apiServer(): Promise<string> {
  buildProduct();
  return inNamespace('real-api', async (namespace) => {
    namespace.run('ip', ['link', 'set', 'lo', 'up']);
    const api = await RealApi.start(namespace);
    try {
      await api.ask({ do: 'load', services, endpoints });
      const rows = [
        ...(await lists(api, 'streaming', false)),
        ...(await lists(api, 'paged', false)),
        ...(await lists(api, 'paged', true)),
        ...(await onSlowNetwork(api, namespace)),
        ...(await versionRows(api)),
        ...(await startRows(api, namespace)),
        ...(await changeRows(api, 1000, 50)),
        ...(await changeRows(api, 100, 500)),
      ];
      const what = `A real API server with ${number(services)} × ${endpoints}, best of ${rounds}`;
      const cells = rows.map(({ what, unit, costs: [json = 0, protobuf = 0] }) => [
        `${what}; ${unit}`,
        number(json),
        number(protobuf),
        ratio(protobuf, json),
      ]);
      return `${what}\n\n${table(['', 'JSON', 'protobuf', 'ratio'], cells)}`;
    } finally {
      await api.close();
    }
  });
}

/** The least of several measurements of each form. Forms take turns. */
async function best<T extends Record<string, number>>(
  times: number,
  measure: (form: Form) => Promise<T>,
): Promise<T[]> {
  const found: T[][] = forms.map(() => []);
  for (let i = 0; i < times; i += 1) {
    for (const [j, form] of forms.entries()) found[j]!.push(await measure(form));
  }
  return found.map((measured) => measured.reduce(least));
}

function least<T extends Record<string, number>>(a: T, b: T): T {
  return Object.fromEntries(Object.keys(a).map((key) => [key, Math.min(a[key]!, b[key]!)])) as T;
}

async function lists(api: RealApi, way: 'streaming' | 'paged', gzip: boolean): Promise<Row[]> {
  const found = await best(rounds, async (form) => {
    const before = api.cpuSeconds;
    const { bytes, ms } = await api.ask<Answer>({
      do: 'list',
      way,
      accept: contentTypes[form],
      gzip,
    });
    return { bytes: bytes / megabyte, ms, cpu: (api.cpuSeconds - before) * 1000 };
  });
  const what = `EndpointSlices listed, ${way}${gzip ? ', gzip' : ''}`;
  return [
    { what, unit: 'MB', costs: found.map(({ bytes }) => bytes) },
    { what, unit: 'ms', costs: found.map(({ ms }) => ms) },
    { what, unit: "ms of the server's processor time", costs: found.map(({ cpu }) => cpu) },
  ];
}

/** Measures the same lists at 100 Mbit/s. */
async function onSlowNetwork(api: RealApi, namespace: Namespace): Promise<Row[]> {
  const shaping = ['tbf', 'rate', '100mbit', 'burst', '256kb', 'latency', '100ms'];
  namespace.run('tc', ['qdisc', 'add', 'dev', 'lo', 'root', ...shaping]);
  try {
    const rows = [
      ...(await lists(api, 'streaming', false)),
      ...(await lists(api, 'paged', false)),
      ...(await lists(api, 'paged', true)),
    ];
    return rows
      .filter(({ unit }) => unit === 'ms')
      .map((row) => ({ ...row, what: `${row.what}, at 100 Mbit/s` }));
  } finally {
    namespace.run('tc', ['qdisc', 'del', 'dev', 'lo', 'root']);
  }
}

/** What each node asks for when it has lost its connections. */
async function versionRows(api: RealApi): Promise<Row[]> {
  const row = async (of: VersionOf): Promise<Row> => {
    const found = await best(rounds, async (form) => {
      const before = api.cpuSeconds;
      await api.ask({ do: 'versions', of, count: 500, accept: contentTypes[form] });
      return { cpu: ((api.cpuSeconds - before) * 1000) / 500 };
    });
    const what = `Versions of Services and EndpointSlices, from lists of ${of}`;
    return {
      what,
      unit: "ms of the server's processor time",
      costs: found.map(({ cpu }) => cpu),
    };
  };
  return [await row('one of all'), await row('one name')];
}

async function startRows(api: RealApi, namespace: Namespace): Promise<Row[]> {
  const found = await best(rounds, async (form) => {
    namespace.run('nft', ['flush', 'ruleset']);
    const before = api.cpuSeconds;
    return withProduct(
      api,
      namespace,
      async (_product, { programmedMs, listedMs, report }) => {
        const server = (api.cpuSeconds - before) * 1000;
        return { ms: programmedMs, server, cpu: report.cpuMs, listed: listedMs };
      },
      form,
    );
  });
  const what = 'Process start → everything programmed';
  return [
    { what, unit: 'ms', costs: found.map(({ ms }) => ms) },
    { what: 'Process start → lists complete', unit: 'ms', costs: found.map((one) => one.listed) },
    { what, unit: 'ms of our processor time', costs: found.map(({ cpu }) => cpu) },
    { what, unit: "ms of the server's", costs: found.map(({ server }) => server) },
  ];
}

/** The cost of changes that are sent to watches, and of as many changes without a watch. */
async function changeRows(api: RealApi, changes: number, watches: number): Promise<Row[]> {
  const measure = async (count: number, form: Form) => {
    await api.ask({ do: 'watch', count, accept: contentTypes[form] });
    await sleep(settleMs);
    const before = api.cpuSeconds;
    const { bytes } = await api.ask<Answer>({ do: 'change', count: changes });
    return { bytes: bytes / megabyte, cpu: (api.cpuSeconds - before) * 1000 };
  };
  const alone = await best(rounds, (form) => measure(0, form));
  const watched = await best(rounds, (form) => measure(watches, form));
  const writing = Math.min(...alone.map(({ cpu }) => cpu));
  const what = `${number(changes)} changes, ${watches} watches`;
  const unit = "ms of the server's processor time";
  return [
    { what, unit: 'MB', costs: watched.map(({ bytes }) => bytes) },
    { what, unit, costs: watched.map(({ cpu }) => cpu) },
    { what: `${what}, but for the writing`, unit, costs: watched.map(({ cpu }) => cpu - writing) },
  ];
}

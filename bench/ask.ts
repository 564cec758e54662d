/**
 * What does it cost to ask the running process? It runs the product and the fake API server as
 * api-change.ts does, with one endpoint changed every 5 ms. Rounds without questions and rounds
 * with 20 questions a second take turns, because the load of the machine may change.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { ServiceList } from '../src/ask/service.ts';
import type { FakeApi } from '../test/fake/api-server-process.ts';
import { buildProduct, withCluster, withProduct } from './lib/api-rig.ts';
import { type Size, sizeName } from './lib/cluster.ts';
import type { Namespace } from './lib/namespace.ts';
import type { ProbeReport } from './lib/probe.ts';
import type { Product } from './lib/product.ts';
import { number, ratio, summarise, table } from './lib/stats.ts';

const size: Size = { services: 8000, endpoints: 30 };
const rounds = 3;
const seconds = 5;
const perSecond = 20;
/** The asker needs part of a second to start, and must end before the round does. */
const answersARound = perSecond * (seconds - 1);
const asker = join(import.meta.dirname, 'lib', 'asker.ts');
const run = promisify(execFile);

interface Answers {
  readonly tookMs: readonly number[];
  readonly bytes: number;
}

interface Round {
  readonly changes: ProbeReport;
  /** Undefined: nobody asked. */
  readonly answers: Answers | undefined;
}

export async function askQuestion(): Promise<string> {
  buildProduct();
  const rows = await withCluster(size, (api, namespace) =>
    withProduct(api, namespace, (product) => rowsOf(api, namespace, product)),
  );
  const head = ['question', 'answer p50', 'answer p99', 'kB', 'change p50', 'change p99'];
  const all = [...head, 'p99 beside none', 'CPU an answer', 'turn', 'late'];
  const title = `Asked ${perSecond} times a second at ${sizeName(size)}, 200 changes a second; ms, median of ${rounds}`;
  return [title, table(all, rows)].join('\n\n');
}

async function rowsOf(api: FakeApi, namespace: Namespace, product: Product): Promise<string[][]> {
  const [some] = (await askOnce(namespace, '/fairlead/v1/services?limit=1')).items;
  const questions: readonly (readonly [name: string, path: string | undefined])[] = [
    ['none', undefined],
    ['status', '/fairlead/v1/status'],
    ['service', `/fairlead/v1/service?namespace=${some!.namespace}&name=${some!.name}`],
    ['services, 500 a page', '/fairlead/v1/services'],
    ['explain', `/fairlead/v1/explain?to=${some!.clusterIPs[0]}:${some!.ports[0]!.port}`],
  ];
  await api.ask({ do: 'churn', perSecond: 200, seconds: 1 });
  await product.settled();
  const found = new Map<string, Round[]>(questions.map(([name]) => [name, []]));
  for (let i = 0; i < rounds; i += 1) {
    for (const [name, path] of questions) {
      found.get(name)!.push(await measured(api, namespace, product, path));
    }
  }
  return questions.map(([name]) => row(name, found.get(name)!, found.get('none')!));
}

async function askOnce(namespace: Namespace, path: string) {
  const words = `fetch('http://127.0.0.1:10249${path}').then((a) => a.text()).then(console.log)`;
  const args = ['netns', 'exec', namespace.name, process.execPath, '--eval', words];
  const { stdout } = await run('ip', args);
  return JSON.parse(stdout) as Pick<ServiceList, 'items'>;
}

async function measured(
  api: FakeApi,
  namespace: Namespace,
  product: Product,
  path: string | undefined,
): Promise<Round> {
  await product.reset();
  const churning = api.ask({ do: 'churn', perSecond: 200, seconds });
  const answers = path === undefined ? undefined : await answersOf(namespace, path);
  await churning;
  return { changes: await product.settled(), answers };
}

async function answersOf(namespace: Namespace, path: string): Promise<Answers> {
  const args = [asker, path, String(answersARound), String(1000 / perSecond)];
  const inside = ['netns', 'exec', namespace.name, process.execPath, ...args];
  const { stdout } = await run('ip', inside);
  return JSON.parse(stdout) as Answers;
}

function row(name: string, all: readonly Round[], quiet: readonly Round[]): string[] {
  const change = (of: (report: ProbeReport) => number): number =>
    medianOf(all, ({ changes }) => of(changes));
  const answer = (of: 'p50' | 'p99'): string =>
    number(medianOf(all, ({ answers }) => (answers ? summarise(answers.tookMs)[of] : Number.NaN)));
  const p99 = change(({ socketToAck }) => socketToAck.p99);
  const cpuMs = change((report) => report.cpuMs) - medianOf(quiet, ({ changes }) => changes.cpuMs);
  return [
    name,
    answer('p50'),
    answer('p99'),
    number((all[0]!.answers?.bytes ?? Number.NaN) / 1000),
    number(change(({ socketToAck }) => socketToAck.p50)),
    number(p99),
    ratio(
      p99,
      medianOf(quiet, ({ changes }) => changes.socketToAck.p99),
    ),
    name === 'none' ? number(Number.NaN) : number(cpuMs / answersARound),
    number(change(({ longestTurn }) => longestTurn)),
    number(change(({ eventLoop }) => eventLoop.max)),
  ];
}

function medianOf<T>(all: readonly T[], of: (one: T) => number): number {
  const sorted = Float64Array.from(all, of).sort();
  return sorted[Math.floor(sorted.length / 2)]!;
}

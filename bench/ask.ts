/**
 * What does it cost to ask the running process? It runs the product and the fake API server as
 * api-change.ts does, with one endpoint changed every 5 ms. Rounds without questions and rounds
 * with questions take turns, because the load of the machine may change. In one kind of round,
 * another program is asked: what changes wait longer then is the asker's and the machine's. All of
 * it takes two minutes; `--whole` has more and longer rounds, for a quarter of an hour.
 */
import { execFile } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { ServiceList } from '../src/ask/service.ts';
import type { FakeApi } from '../test/fake/api-server-process.ts';
import { buildProduct, withCluster, withProduct } from './lib/api-rig.ts';
import { type Answers, Asker } from './lib/asker-process.ts';
import { type Size, sizeName } from './lib/cluster.ts';
import type { Extent } from './lib/extent.ts';
import type { Namespace } from './lib/namespace.ts';
import type { ProbeReport } from './lib/probe.ts';
import type { Product } from './lib/product.ts';
import { number, ratio, summarise, table } from './lib/stats.ts';

const size: Size = { services: 8000, endpoints: 30 };

interface Scale {
  /** Many and short: what else the machine does hits some, and the median is of the others. */
  readonly rounds: number;
  readonly seconds: number;
  /** Processor time differs less from round to round than the p99 of changes. */
  readonly aloneRounds: number;
}

const scales: Readonly<Record<Extent, Scale>> = {
  usual: { rounds: 5, seconds: 1, aloneRounds: 1 },
  whole: { rounds: 15, seconds: 2, aloneRounds: 3 },
};
/** The last change of a round is in force after some milliseconds. */
const quietMs = 200;
const run = promisify(execFile);

interface Question {
  readonly name: string;
  readonly perSecond: number;
  /** The questions, asked one after the other; none: no questions. */
  readonly paths: readonly string[];
}

interface Round {
  readonly changes: ProbeReport;
  /** Undefined: no questions. */
  readonly answers: Answers | undefined;
  /** Processor time while nothing changes; undefined in later rounds. */
  readonly aloneCpuMs: number | undefined;
}

export async function askQuestion(extent: Extent): Promise<string> {
  const scale = scales[extent];
  buildProduct();
  const rows = await withCluster(size, (api, namespace) => {
    // As nodes have one. Without it, each endpoint would be without a route, which is a problem.
    namespace.run('ip', ['route', 'add', 'default', 'dev', 'lo']);
    return withProduct(api, namespace, async (product) => {
      const asker = await Asker.start(namespace);
      try {
        return await rowsOf({ api, asker, product, scale }, await someServices(namespace));
      } finally {
        await asker.close();
      }
    });
  });
  const head = ['question', 'answer p50', 'answer p99', 'kB', 'change p50', 'change p99'];
  const all = [...head, 'p99 beside none', 'CPU an answer', 'turn', 'late'];
  const title = `Asked while 200 changes a second come, at ${sizeName(size)}; ms, median of ${scale.rounds} rounds of ${scale.seconds} s`;
  return [title, table(all, rows)].join('\n\n');
}

interface Stage {
  readonly api: FakeApi;
  readonly asker: Asker;
  readonly product: Product;
  readonly scale: Scale;
}

async function rowsOf(stage: Stage, services: ServiceList['items']): Promise<string[][]> {
  const { api, asker, product, scale } = stage;
  const questions = questionsAbout(services, asker.silentUrl);
  await api.ask({ do: 'churn', perSecond: 200, seconds: 1 });
  await product.settled();
  const found = questions.map((question) => ({ question, all: [] as Round[] }));
  for (let i = 0; i < scale.rounds; i += 1) {
    for (const { question, all } of found) {
      const aloneCpuMs = i < scale.aloneRounds ? await aloneCpu(stage, question) : undefined;
      all.push({ aloneCpuMs, ...(await beside(stage, question)) });
    }
  }
  return found.map(({ question, all }) => row(question, all, found[0]!.all, scale));
}

function questionsAbout(services: ServiceList['items'], silentUrl: string): readonly Question[] {
  const [some] = services;
  const explain = ({ clusterIPs: [address], ports: [port] }: ServiceList['items'][number]) =>
    `/fairlead/v1/explain?to=${address}:${port!.port}`;
  const often = { perSecond: 20 };
  return [
    { name: 'none', perSecond: 0, paths: [] },
    { name: 'asked of another program', ...often, paths: [silentUrl] },
    { name: 'status', ...often, paths: ['/fairlead/v1/status'] },
    {
      name: 'service',
      ...often,
      paths: [`/fairlead/v1/service?namespace=${some!.namespace}&name=${some!.name}`],
    },
    { name: 'problems', ...often, paths: ['/fairlead/v1/problems'] },
    { name: 'services, 500 a page', ...often, paths: ['/fairlead/v1/services'] },
    { name: 'explain', ...often, paths: [explain(some!)] },
    { name: 'explain, of 100', ...often, paths: services.map(explain) },
    { name: 'the page for people', ...often, paths: ['/'] },
    { name: 'diff, once a second', perSecond: 1, paths: ['/fairlead/v1/diff'] },
  ];
}

async function someServices(namespace: Namespace): Promise<ServiceList['items']> {
  const url = 'http://127.0.0.1:10249/fairlead/v1/services?limit=100';
  const words = `fetch('${url}').then((a) => a.text()).then(console.log)`;
  const args = ['netns', 'exec', namespace.name, process.execPath, '--eval', words];
  const { stdout } = await run('ip', args);
  return (JSON.parse(stdout) as ServiceList).items;
}

/** Milliseconds of processor time while nothing changes. */
async function aloneCpu({ asker, product, scale }: Stage, question: Question): Promise<number> {
  await product.collected();
  await product.reset();
  await asked(asker, question, scale.seconds);
  return (await product.report()).cpuMs;
}

type Beside = Pick<Round, 'changes' | 'answers'>;

async function beside({ api, asker, product, scale }: Stage, question: Question): Promise<Beside> {
  // The first answer also checks what has changed since the last question of its kind.
  const first = question.paths.slice(0, 1);
  if (first.length > 0) await asker.ask({ paths: first, perSecond: question.perSecond, count: 1 });
  await product.collected();
  await product.reset();
  const churning = api.ask({ do: 'churn', perSecond: 200, seconds: scale.seconds });
  const answers = await asked(asker, question, scale.seconds);
  await churning;
  return { answers, changes: await product.settled(quietMs) };
}

/** Asks for this long. */
async function asked(
  asker: Asker,
  { paths, perSecond }: Question,
  forSeconds: number,
): Promise<Answers | undefined> {
  if (paths.length > 0) return asker.ask({ paths, perSecond, count: perSecond * forSeconds });
  await sleep(forSeconds * 1000);
  return undefined;
}

function row(
  { name, perSecond }: Question,
  all: readonly Round[],
  quiet: readonly Round[],
  { aloneRounds, seconds }: Scale,
): string[] {
  const change = (of: (report: ProbeReport) => number): number =>
    medianOf(all, ({ changes }) => of(changes));
  const answer = (of: 'p50' | 'p99'): string =>
    number(medianOf(all, ({ answers }) => (answers ? summarise(answers.tookMs)[of] : Number.NaN)));
  const aloneMs = (of: readonly Round[]): number =>
    medianOf(of.slice(0, aloneRounds), ({ aloneCpuMs }) => aloneCpuMs ?? Number.NaN);
  const p99 = change(({ socketToAck }) => socketToAck.p99);
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
    number((aloneMs(all) - aloneMs(quiet)) / (perSecond * seconds)),
    number(change(({ longestTurn }) => longestTurn)),
    number(change(({ eventLoop }) => eventLoop.max)),
  ];
}

function medianOf<T>(all: readonly T[], of: (one: T) => number): number {
  const sorted = Float64Array.from(all, of).sort();
  return sorted[Math.floor(sorted.length / 2)]!;
}

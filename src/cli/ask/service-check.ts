/** `fairlead service check`: opens connections to a Service and its endpoints, from this node. */
import type { ServiceCheck } from '../../ask/check.ts';
import type { Explained } from '../../ask/explanation.ts';
import { apiVersion } from '../../ask/paths.ts';
import type { ServiceAnswer } from '../../ask/service.ts';
import { type Block, bad, type Cell, type Fact, tableIf } from '../../ask/view.ts';
import { counted } from '../../ask/words.ts';
import { droppedSources } from '../../host/dropped-sources.ts';
import { interfaceAddresses } from '../../host/interfaces.ts';
import { type DeadHops, readDeadHops } from '../../host/routing.ts';
import { joinHostPort } from '../../net/address.ts';
import { formatPortName } from '../../net/protocol.ts';
import { blocksText, type Form } from '../../serve/text.ts';
import { attemptsOf, type NodeAddresses } from '../../tools/check/attempts.ts';
import { greetingBytesMax } from '../../tools/check/greeting.ts';
import { meanings, type TryOptions, tryOne } from '../../tools/check/trying.ts';
import { thisMachine } from '../../tools/preflight/machine.ts';
import type { Given, Run } from '../command.ts';
import { exitCodes, isUnanswered, UsageError } from '../errors.ts';
import { durationMs } from '../flags.ts';
import { writerOf } from '../output.ts';
import { ask, reply } from './client.ts';
import { serverOf } from './server.ts';
import { serviceQuery } from './service-show.ts';

type Tried = ServiceCheck['tried'][number];

/** Concurrent connections. */
const togetherMax = 8;
/** The most connections to begin per second. */
const perSecond = 50;
export const timeoutDefault = '2s';
const timeoutMaxMs = 10_000;
/** The shortest greeting. */
const smallBytes = 100;
const silenceMs = 100;
/** The most frontends whose failure is explained. */
const explainedMax = 10;

/** Exit code 1: a connection failed that clients of the Service need. */
export const run: Run = async (given, io) => {
  const write = writerOf(given.values.output);
  const query = serviceQuery(given);
  const options: TryOptions = {
    ...{ timeoutMs: timeoutOf(given), greetings: greetingsOf(given), silenceMs },
    ...{ deadHops, machine: thisMachine(), own: interfaceAddresses() },
  };
  const server = await serverOf(given);
  const service = await ask(server, 'service', { ...query, endpoints: '10000', pods: 'true' });
  const found = await check(server, service, options);
  const form: Form = { wide: false, headings: given.values['no-headers'] === undefined };
  io.stdout.write(write(found, () => blocksText(viewOf(found), form)));
  return found.healthy ? exitCodes.healthy : exitCodes.unhealthy;
};

/** The addon takes 6 MB: it is loaded when something does not answer. */
async function deadHops(): Promise<DeadHops> {
  const { openKernel } = await import('../../kernel/native-kernel.ts');
  const kernel = openKernel();
  return readDeadHops(kernel).finally(() => kernel.close());
}

function timeoutOf({ values: { timeout = timeoutDefault } }: Given): number {
  const timeoutMs = durationMs('timeout', timeout);
  if (timeoutMs > 0 && timeoutMs <= timeoutMaxMs) return timeoutMs;
  throw new UsageError(`--timeout ${timeout} is not more than 0s and at most 10s`);
}

function greetingsOf({ values: { size, speak } }: Given): number[] {
  if (size === undefined) return speak === undefined ? [] : [smallBytes];
  const bytes = /^\d+$/.test(size) ? Number(size) : 0;
  if (bytes > smallBytes && bytes <= greetingBytesMax) return [smallBytes, bytes];
  const range = `${smallBytes + 1} to ${greetingBytesMax}`;
  throw new UsageError(`--size ${size} is not a number of bytes from ${range}`);
}

async function check(
  server: string,
  service: ServiceAnswer,
  options: TryOptions,
): Promise<ServiceCheck> {
  const { name, namespace, problems } = service;
  const { problems: node, remarks } = await ask(server, 'status', {});
  const { attempts, leftOut } = attemptsOf(service, await nodeAddresses(server, service));
  const before = droppedSources(options.machine);
  const answered = await inParallel(attempts, async (attempt): Promise<Tried> => {
    const { address, number, ...shown } = attempt;
    const to = joinHostPort(address, number);
    if (attempt.what === 'health check') return { ...shown, to, ...(await asked(to, options)) };
    return { ...shown, to, ...(await tryOne(attempt, options)) };
  });
  const tried = await explained(server, service, answered.map(compared));
  const dropped = (droppedSources(options.machine) ?? 0) - (before ?? 0);
  return {
    apiVersion,
    kind: 'ServiceCheck',
    ...{ namespace, name, problems, node, leftOut },
    healthy: tried.length > 0 && !tried.some(isFailure),
    tried,
    notes: [...remarks, ...notesOf(service, tried, options, dropped)],
  };
}

/** Silence of a server of datagrams is a failure where another one of the port answers. */
function compared(one: Tried, _: number, all: readonly Tried[]): Tried {
  const isAnswered = ({ answer, family, port, what }: Tried): boolean =>
    answer === 'answered' && what === 'endpoint' && port === one.port && family === one.family;
  if (one.answer !== 'silent' || one.what !== 'endpoint' || !all.some(isAnswered)) return one;
  return { ...one, answer: 'timeout', means: 'other endpoints of this port answer' };
}

/** As explain says: an address of this node that accepts node ports, of each family. */
async function nodeAddresses(server: string, service: ServiceAnswer): Promise<NodeAddresses> {
  const { name, namespace, ports } = service;
  const port = ports.find(({ frontends }) => frontends.some(({ kind }) => kind === 'nodePort'));
  if (port === undefined) return new Map();
  const to = `${namespace}/${name}:${port.port}/${port.protocol}`;
  const { also = [], ...first } = await ask(server, 'explain', { to, from: 'outside' });
  const own = [first, ...also].filter(({ service: one }) => one?.frontend === 'nodePort');
  return new Map(own.map((one) => [one.to.family, one.to.address]));
}

/** Asks a health-check node port, as load balancers do. */
async function asked(
  to: string,
  { timeoutMs }: TryOptions,
): Promise<Pick<Tried, 'answer' | 'means' | 'tookMs'>> {
  const beginMs = performance.now();
  const took = (): number => Math.round(10 * (performance.now() - beginMs)) / 10;
  try {
    const { body } = await reply(`http://${to}/healthz`, to, timeoutMs);
    const [, count] = /"localEndpoints":\s*(\d+)/.exec(body) ?? [];
    if (count === undefined) throw new Error('another program answers there');
    const means = `load balancers ${count === '0' ? 'leave this node out' : 'choose this node'}`;
    return { answer: 'answered', means, tookMs: took() };
  } catch (error) {
    return { answer: 'failed', means: (error as Error).message, tookMs: took() };
  }
}

/** With what the proxy does with packets of this node to frontends that do not answer. */
async function explained(
  server: string,
  { problems, sourceRanges }: ServiceAnswer,
  tried: readonly Tried[],
): Promise<Tried[]> {
  const known = new Map<string, Explained | undefined>();
  const failed = tried.filter((one) => one.what === 'service' && isFailure(one));
  for (const { protocol, to } of failed) {
    const target = `${to}/${protocol}`;
    if (known.has(target) || known.size === explainedMax) continue;
    const answer = ask(server, 'explain', { to: target, from: 'node' });
    known.set(target, await answer.catch(unlessUnanswered));
  }
  return tried.map((one) => {
    const found = failed.includes(one) ? known.get(`${one.to}/${one.protocol}`) : undefined;
    if (found === undefined) return one;
    const { outcome, summary, warnings } = found;
    // It is for the clients that the Service names.
    const isForOthers = outcome === 'dropped' && sourceRanges.length > 0;
    const refused = problems.length === 0 ? summary : `it is ${outcome} here: see Problem`;
    const why = one.answer === 'no_route' ? meanings.no_route : rightRules;
    const means = outcome === 'endpoint' ? (warnings[0] ?? why) : refused;
    return { ...one, means, ...(isForOthers && { used: false }) };
  });
}

const rightRules = 'rules lead to an endpoint: it fails, or something on the way drops packets';

function unlessUnanswered(error: unknown): undefined {
  if (!isUnanswered(error)) throw error;
}

/** Runs a limited number concurrently and per second. Results keep the order. */
async function inParallel<T, R>(items: readonly T[], act: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const beginMs = performance.now();
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next++; at < items.length; at = next++) {
      const waitMs = beginMs + (1000 * at) / perSecond - performance.now();
      if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
      results[at] = await act(items[at]!);
    }
  };
  await Promise.all(Array.from({ length: togetherMax }, work));
  return results;
}

function notesOf(
  { ports, podsUnknown }: ServiceAnswer,
  tried: readonly Tried[],
  { greetings }: TryOptions,
  dropped: number,
): string[] {
  const failed = tried.filter(isFailure);
  const connected = tried.some(({ answer, what }) => what === 'endpoint' && answer === 'connected');
  return [
    ...nodeNote(tried, failed),
    ...(dropped > 0 && failed.length > 0
      ? [`rp_filter has dropped ${counted(dropped, 'packet')} in that time: see their way back.`]
      : []),
    ...(connected && failed.length === 0 && greetings.length === 0
      ? [
          'Nothing was sent on connections: --speak shows TLS, --size 1400 whether packets are too large.',
        ]
      : []),
    ...(tried.some(({ answer }) => answer === 'silent')
      ? ['UDP: silence is not a failure; only a refusal or an answer is conclusive.']
      : []),
    ...(ports.some(({ protocol }) => protocol === 'SCTP')
      ? ['SCTP is not tried: this program cannot open such connections.']
      : []),
    ...(podsUnknown === undefined ? [] : [`Names of pods are not known: ${podsUnknown}.`]),
  ];
}

/** Whether the node is the fault. */
function nodeNote(tried: readonly Tried[], failed: readonly Tried[]): string[] {
  const endpoints = failed.filter(({ what }) => what === 'endpoint');
  const [first] = endpoints;
  const ofNode = tried.filter(({ node }) => node !== undefined && node === first?.node);
  const isOnly = endpoints.length > 1 && endpoints.every(({ node }) => node === first?.node);
  const areOthers = tried.some(({ node, what }) => what === 'endpoint' && node !== first?.node);
  if (!isOnly || !areOthers || ofNode.length > endpoints.length) return [];
  return [`All failures are on node ${first!.node}, and no endpoint there answers.`];
}

const fine: readonly Tried['answer'][] = ['connected', 'answered', 'silent'];

/** Whether clients need it, and it does not answer. */
function isFailure({ answer, used }: Tried): boolean {
  return used !== false && !fine.includes(answer);
}

/** The result, for people. */
function viewOf(found: ServiceCheck): Block[] {
  const { leftOut, name, namespace, node, notes, problems, tried } = found;
  const facts: Fact[] = [
    ['Service', `${namespace}/${name}, as this node reaches it`],
    ...problems.map((problem): Fact => ['Problem', bad(problem)]),
    ...node.map((problem): Fact => ['Node', bad(problem)]),
    ...resultOf(found),
    ...notes.map((note): Fact => ['Note', note]),
    ...(leftOut > 0 ? [['Left out', `${counted(leftOut, 'target')}, not tried`] as Fact] : []),
  ];
  const shown = columns.filter(
    ({ always, cell }) => always || tried.some((one) => cell(one) !== undefined),
  );
  const table = {
    title: 'Answers',
    columns: shown.map(({ name }) => ({ name })),
    headAt: 1,
    rows: tried.map((one) => shown.map(({ cell }) => cell(one))),
  };
  return [{ facts }, ...tableIf(table)];
}

interface ShownColumn {
  readonly name: string;
  readonly cell: (one: Tried) => Cell;
  /** Also if no row has it. */
  readonly always?: boolean;
}

const columns: readonly ShownColumn[] = [
  { name: 'Port', always: true, cell: ({ port, protocol }) => formatPortName(port, protocol) },
  { name: 'To', always: true, cell: ({ to }) => to },
  { name: 'What', always: true, cell: ({ frontend, what }) => frontend ?? what },
  { name: 'Pod', cell: ({ pod }) => pod },
  { name: 'Node', cell: ({ node }) => node },
  {
    name: 'Used',
    always: true,
    cell: ({ used }) => (used === undefined ? undefined : used ? 'yes' : 'no'),
  },
  { name: 'Answer', always: true, cell: answerCell },
  { name: 'Took', always: true, cell: ({ tookMs }) => `${tookMs}ms` },
  { name: 'Speaks', cell: ({ speaks }) => speaks },
  { name: 'Means', always: true, cell: ({ means }) => means },
];

/** `no route` */
function answerCell({ answer }: Tried): Cell {
  return { text: answer.replaceAll('_', ' '), tone: fine.includes(answer) ? 'good' : 'bad' };
}

/** `1 of 3 endpoints in use failed` */
function resultOf({ tried }: ServiceCheck): Fact[] {
  if (tried.length === 0) {
    return [['Result', bad('nothing to try: it has no endpoint and no ClusterIP here')]];
  }
  const used = tried.filter(({ used, what }) => what === 'endpoint' && used);
  const through = tried.filter(({ what }) => what === 'service');
  return [
    ['Endpoints', failedOf(used, 'endpoint', 'in use')],
    ['Through it', failedOf(through, 'connection', 'through the Service')],
  ];
}

function failedOf(all: readonly Tried[], noun: string, which: string): Cell {
  const failed = all.filter(isFailure).length;
  const text = `${failed} of ${counted(all.length, noun)} ${which} failed`;
  return { text, tone: failed > 0 ? 'bad' : 'good' };
}

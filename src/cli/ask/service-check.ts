/** `fairlead service check`: opens connections to the endpoints of a Service, from this node. */
import type { ServiceCheck } from '../../ask/check.ts';
import { apiVersion } from '../../ask/paths.ts';
import type { ServiceAnswer } from '../../ask/service.ts';
import { type Block, bad, type Cell, type Fact, tableIf } from '../../ask/view.ts';
import { counted } from '../../ask/words.ts';
import { isFine, reach } from '../../host/reach.ts';
import { joinHostPort } from '../../net/address.ts';
import { formatPortName } from '../../net/protocol.ts';
import { blocksText, type Form } from '../../serve/text.ts';
import type { Given, Run } from '../command.ts';
import { exitCodes, UsageError } from '../errors.ts';
import { durationMs } from '../flags.ts';
import { writerOf } from '../output.ts';
import { ask } from './client.ts';
import { serverOf } from './server.ts';
import { serviceQuery } from './service-show.ts';

type Tried = ServiceCheck['tried'][number];
type Port = ServiceAnswer['ports'][number];

/** The most endpoints to try, those in use first. */
const endpointsMax = 100;
/** Connections through the Service, for each of its ports: the proxy selects the endpoints. */
const throughMax = 3;
/** Concurrent connections. */
const togetherMax = 8;
/** The most connections to begin per second. */
const perSecond = 50;
const timeoutDefault = '2s';
const timeoutMaxMs = 10_000;

/** A target: an endpoint of the Service, or one of its ClusterIPs. */
interface Attempt extends Pick<Tried, 'port' | 'protocol' | 'family' | 'what' | 'used'> {
  readonly address: string;
  readonly number: number;
}

/** Exit code 1: a connection failed that clients of the Service need. */
export const run: Run = async (given, io) => {
  const write = await writerOf(given.values.output);
  const query = serviceQuery(given);
  const timeoutMs = timeoutOf(given);
  const service = await ask(await serverOf(given), 'service', { ...query, endpoints: '10000' });
  const found = await check(service, timeoutMs);
  const form: Form = { wide: false, headings: given.values['no-headers'] === undefined };
  io.stdout.write(write(found, () => blocksText(viewOf(found), form)));
  return found.healthy ? exitCodes.healthy : exitCodes.unhealthy;
};

function timeoutOf({ values: { timeout = timeoutDefault } }: Given): number {
  const timeoutMs = durationMs('timeout', timeout);
  if (timeoutMs > 0 && timeoutMs <= timeoutMaxMs) return timeoutMs;
  throw new UsageError(`--timeout ${timeout} is not more than 0s and at most 10s`);
}

async function check(service: ServiceAnswer, timeoutMs: number): Promise<ServiceCheck> {
  const { name, namespace, ports } = service;
  const all = ports.flatMap(endpointsOf);
  const chosen = all.toSorted((a, b) => Number(b.used) - Number(a.used)).slice(0, endpointsMax);
  const attempts = [...chosen, ...ports.flatMap(throughService)];
  const tried = await inParallel(attempts, (attempt) => tryOne(attempt, timeoutMs));
  const failed = tried.some(({ answer, used }) => used !== false && !isFine(answer));
  return {
    apiVersion,
    kind: 'ServiceCheck',
    ...{ namespace, name },
    healthy: !failed && tried.length > 0,
    tried: tried.sort((a, b) => order(ports, a) - order(ports, b)),
    leftOut: all.length - chosen.length,
    notes: notesOf(service, tried),
  };
}

/** By port, the Service's ClusterIPs after its endpoints. */
function order(ports: readonly Port[], { family, port, protocol, what }: Tried): number {
  const at = ports.findIndex((one) => {
    return one.name === port && one.protocol === protocol && one.family === family;
  });
  return 2 * at + (what === 'service' ? 1 : 0);
}

function endpointsOf({ endpoints, family, name, protocol }: Port): Attempt[] {
  if (protocol === 'SCTP') return [];
  return endpoints.map(({ address, port: number, usedBy }) => {
    const used = usedBy.length > 0;
    return { port: name, protocol, family, what: 'endpoint', used, address, number };
  });
}

function throughService({ cluster, family, frontends, local, name, protocol }: Port): Attempt[] {
  const own = frontends.find(({ heldBy, kind }) => kind === 'clusterIP' && heldBy === undefined);
  if (own?.address === undefined || protocol === 'SCTP') return [];
  const { address, port: number } = own;
  const times = Math.min(throughMax, Math.max(1, cluster, local));
  return Array.from({ length: times }, (): Attempt => {
    return { port: name, protocol, family, what: 'service', address, number };
  });
}

async function tryOne(attempt: Attempt, timeoutMs: number): Promise<Tried> {
  const { address, family, number, port, protocol, used, what } = attempt;
  const reached = await reach(protocol, { address, family, port: number }, timeoutMs);
  const { answer, error, tookMs } = reached!;
  return {
    ...{ port, protocol, family, to: joinHostPort(address, number), what },
    ...(used === undefined ? {} : { used }),
    ...{ answer, tookMs: Math.round(tookMs * 10) / 10 },
    ...(error === undefined ? {} : { error }),
  };
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

function notesOf({ ports }: ServiceAnswer, tried: readonly Tried[]): string[] {
  const has = (protocol: Port['protocol']) => ports.some((port) => port.protocol === protocol);
  return [
    ...(tried.some(({ answer }) => answer === 'silent')
      ? ['UDP: silence is not a failure; only a refusal or an answer is conclusive.']
      : []),
    ...(has('SCTP') ? ['SCTP is not tried: this program cannot open such connections.'] : []),
  ];
}

function viewOf(found: ServiceCheck): Block[] {
  const { leftOut, name, namespace, notes, tried } = found;
  const facts: Fact[] = [
    ['Service', `${namespace}/${name}, as this node reaches it`],
    ...resultOf(found),
    ...notes.map((note): Fact => ['Note', note]),
    ...(leftOut > 0 ? [['Left out', counted(leftOut, 'endpoint')] as Fact] : []),
  ];
  const columns = ['Port', 'To', 'What', 'Used', 'Answer', 'Took', 'Means'].map((name) => ({
    name,
  }));
  return [{ facts }, ...tableIf({ title: 'Answers', columns, headAt: 1, rows: tried.map(row) })];
}

function row(one: Tried): Cell[] {
  const { answer, port, protocol, to, tookMs, used, what } = one;
  return [
    formatPortName(port, protocol),
    to,
    what === 'service' ? 'Service' : what,
    used === undefined ? undefined : used ? 'yes' : 'no',
    { text: answerWords(answer), tone: isFine(answer) ? 'good' : 'bad' },
    `${tookMs}ms`,
    failureWords(answer, what),
  ];
}

/** `1 of 3 endpoints in use fails`. */
function resultOf({ tried }: ServiceCheck): Fact[] {
  if (tried.length === 0) {
    return [['Result', bad('nothing to try: it has no endpoint and no ClusterIP here')]];
  }
  const used = tried.filter((one) => one.used === true);
  const through = tried.filter(({ what }) => what === 'service');
  return [
    ['Endpoints', failedOf(used, 'endpoint', 'in use')],
    ['Through it', failedOf(through, 'connection', 'through the Service')],
  ];
}

function failedOf(all: readonly Tried[], noun: string, which: string): Cell {
  const failed = all.filter(({ answer }) => !isFine(answer)).length;
  const text = `${failed} of ${counted(all.length, noun)} ${which} failed`;
  return { text, tone: failed > 0 ? 'bad' : 'good' };
}

/** `no route` */
function answerWords(answer: Tried['answer']): string {
  return answer.replaceAll('_', ' ');
}

const meanings = {
  connected: '',
  answered: '',
  silent: '',
  refused: 'nothing listens there, or a firewall rejects it',
  timeout: 'no answer: the pod is gone, or a NetworkPolicy or firewall drops it',
  no_route: 'this node has no route to it',
  unreachable: 'its route is "unreachable", or nothing has the address on its link',
  blackhole: 'its route is a blackhole (ip route get)',
  prohibited: 'its route is "prohibit", or a rule of this node forbids it',
  failed: 'see the error with -o json',
} as const satisfies Readonly<Record<Tried['answer'], string>>;

/** What the result means; empty if it is a success. */
function failureWords(answer: Tried['answer'], what: Tried['what']): string {
  if (what === 'endpoint') return meanings[answer];
  if (answer === 'refused') return 'an endpoint refuses, or the proxy does: see fairlead explain';
  return answer === 'timeout'
    ? 'an endpoint does not answer, or a policy drops it'
    : meanings[answer];
}

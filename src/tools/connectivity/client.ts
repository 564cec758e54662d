/** A client of `kubectl fairlead test`: makes all attempts, and prints a line for each. */
import {
  type Attempt,
  attemptsOf,
  type Client,
  type Frontends,
  type Scene,
  type Server,
} from './checks.ts';
import type { Exchange, Exchanged } from './exchange.ts';

/** The most bytes that the kubelet takes of a message of a container that ends. */
const messageBytesMax = 4096;

/**
 * A line for each failure: check, target, node that decides, the client as that node sees it, and
 * what is wrong. Then one for each check with the number of attempts that passed, and `end`.
 */
export async function report(scene: Scene, exchange: Exchange): Promise<string> {
  const attempts = attemptsOf(scene);
  const verdicts = await Promise.all(attempts.map((one) => judge(one, scene, exchange)));
  const failed = attempts.flatMap((one, i) =>
    verdicts[i] === undefined ? [] : [`fail\t${line(one)}\t${verdicts[i].slice(0, 120)}\n`],
  );
  const passed = new Map<string, number>();
  for (const [i, { check }] of attempts.entries()) {
    if (verdicts[i] === undefined) passed.set(check, (passed.get(check) ?? 0) + 1);
  }
  const rest = [...passed].map(([check, count]) => `pass\t${check}\t${count}\n`).join('');
  const end = 'end\n';
  let text = '';
  for (const [i, one] of failed.entries()) {
    const more = `more\t${failed.length - i}\n`;
    if (text.length + one.length + more.length + rest.length + end.length > messageBytesMax) {
      text += more;
      break;
    }
    text += one;
  }
  return `${text}${rest}${end}`;
}

function line({ address, check, decidedOn, family, port, protocol, seenAs }: Attempt): string {
  const target = `${family === 'IPv6' ? `[${address}]` : address}:${port}/${protocol}`;
  return [check, target, decidedOn, seenAs].join('\t');
}

/** The objects of the API that the test has made: a list of Services and pods. */
interface Listed {
  readonly items: readonly {
    readonly kind: string;
    readonly metadata: { readonly name: string };
    readonly spec: {
      readonly clusterIPs?: readonly string[];
      readonly externalIPs?: readonly string[];
      readonly healthCheckNodePort?: number;
      readonly nodeName?: string;
      readonly ports?: readonly {
        readonly nodePort?: number;
        readonly port: number;
        readonly protocol: 'TCP' | 'UDP';
      }[];
    };
    readonly status: {
      readonly loadBalancer?: { readonly ingress?: readonly { readonly ip?: string }[] };
      readonly podIPs?: readonly { readonly ip: string }[];
    };
  }[];
}

/** `nodes`: addresses by the names of nodes. Servers are in the order of their names. */
export function sceneOf(
  listed: Listed,
  nodes: ReadonlyMap<string, readonly string[]>,
  { network, node }: Pick<Client, 'network' | 'node'>,
): Scene {
  const services = listed.items
    .filter(({ kind }) => kind === 'Service')
    .flatMap(({ metadata: { name }, spec, status }): Frontends[] => {
      const { clusterIPs = [], externalIPs = [], healthCheckNodePort: TCP, ports = [] } = spec;
      const nodePorts = Object.fromEntries(ports.map((one) => [one.protocol, one.nodePort]));
      const ingress = status.loadBalancer?.ingress ?? [];
      const loadBalancerIPs = ingress.flatMap(({ ip }) => ip ?? []);
      const port = ports[0]?.port ?? 0;
      const all = { name, clusterIPs, externalIPs, loadBalancerIPs, nodePorts, port };
      return [all, { ...all, name: `${name}-health`, nodePorts: { TCP } }];
    });
  const servers = listed.items
    .filter(({ kind }) => kind === 'Pod')
    .map(({ metadata: { name }, spec: { nodeName = '' }, status }): Server => {
      const podAddresses = (status.podIPs ?? []).map(({ ip }) => ip);
      return { name, node: nodeName, podAddresses, nodeAddresses: nodes.get(nodeName) ?? [] };
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  return { services, servers, client: { network, node, addresses: nodes.get(node) ?? [] } };
}

/** What is wrong; undefined: nothing. */
type Verdict = string | undefined;

/** The least connections of an attempt. */
const connectionsMin = 4;
/** Of two servers, one is missing by chance in one of 2^29 attempts. */
const connectionsMax = 30;
/** How long an answer may take, in milliseconds. */
const timeoutMs = 2000;
/** Connections that may fail at first: the objects are new, and proxies may be busy. */
const earlyFailures = 5;

/** Makes the connections of an attempt, and says whether they went as they should. */
async function judge(attempt: Attempt, scene: Scene, exchange: Exchange): Promise<Verdict> {
  const { expected } = attempt;
  if (expected === 'refused' || expected === 'dropped' || expected.startsWith('status')) {
    const isExpected = (one: Exchanged): boolean =>
      'failed' in one && one.failed === (expected === 'dropped' ? 'timeout' : expected);
    const found = await firstThat(isExpected, attempt, exchange);
    return isExpected(found) ? undefined : `${outcomeText(found)}, and should be ${expected}`;
  }
  const first = await firstThat((one) => 'server' in one, attempt, exchange);
  const seen = new Map<string, number>();
  let latest = first;
  for (let made = 1; ; made += 1) {
    if ('failed' in latest) return afterSome(latest, made);
    seen.set(latest.server, (seen.get(latest.server) ?? 0) + 1);
    const wrong = wrongOf(attempt, latest, seen, scene);
    if (wrong !== undefined) return wrong;
    const isMissing = expected === 'every' && seen.size < scene.servers.length;
    if (made >= connectionsMin && !isMissing) return undefined;
    if (made === connectionsMax) return `only ${[...seen.keys()]} answers ${made} connections`;
    latest = await exchange(attempt, timeoutMs);
  }
}

/** The first exchange that is so, or the last one. */
async function firstThat(
  isSo: (one: Exchanged) => boolean,
  attempt: Attempt,
  exchange: Exchange,
): Promise<Exchanged> {
  for (let left = earlyFailures; ; left -= 1) {
    const found = await exchange(attempt, timeoutMs);
    if (isSo(found) || left === 0) return found;
  }
}

function outcomeText(one: Exchanged): string {
  return 'failed' in one ? one.error : `${one.server} answers`;
}

function afterSome(one: Exchanged, made: number): string {
  return made === 1
    ? outcomeText(one)
    : `connection ${made} failed after others were answered: ${outcomeText(one)}`;
}

function wrongOf(
  { expected }: Attempt,
  { own, seen: client, server }: Extract<Exchanged, { server: string }>,
  seen: ReadonlyMap<string, number>,
  { servers }: Scene,
): Verdict {
  if (expected === 'one' && seen.size > 1) return `several servers answer: ${[...seen.keys()]}`;
  const isFirst = server === servers[0]?.name;
  if ((expected === 'first' || expected === 'kept') && !isFirst) {
    return `${server} answers, which is on another node`;
  }
  if (expected !== 'kept' || client === own) return undefined;
  return `the server sees the client as ${client}, and not as ${own}`;
}

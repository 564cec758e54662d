/** `fairlead drops`: which packets to Services are dropped or refused on this node, live. */

import type { FoundDrop } from '../../ask/drops.ts';
import type { Explanation } from '../../ask/explanation.ts';
import { apiVersion } from '../../ask/paths.ts';
import { interfaceAddresses } from '../../host/interfaces.ts';
import { orElse } from '../../kernel/errors.ts';
import { IPPROTO } from '../../kernel/nft/constants.ts';
import { binary, destinationKey } from '../../modes/elements.ts';
import {
  type Family,
  formatAddress,
  formatEndpoint,
  joinHostPort,
  parseAddress,
} from '../../net/address.ts';
import { formatServicePort } from '../../net/protocol.ts';
import { type Drop, watchDrops } from '../../tools/trace/drops.ts';
import type { Given, Io, Run } from '../command.ts';
import { exitCodes, isUnanswered, UsageError } from '../errors.ts';
import { durationMs } from '../flags.ts';
import { whileRead } from '../reader.ts';
import { ask, askPages } from './client.ts';
import { namespaceOf } from './names.ts';
import { serverOf } from './server.ts';
import { type Tracing, tracing } from './tracing.ts';

interface Request {
  readonly server: string;
  readonly namespace: string | undefined;
  readonly count: number;
  readonly timeoutMs: number | undefined;
  readonly asJson: boolean;
}

/** Exit code 1: some were found. */
export const run: Run = async (given, io) => {
  const request = await requestOf(given);
  return tracing(io, (means) => follow(request, io, means));
};

async function requestOf(given: Given): Promise<Request> {
  const { count, output, timeout } = given.values;
  const isCount = count === undefined || /^[1-9]\d*$/.test(count);
  if (!isCount) throw new UsageError(`--count "${count}" is not a number from 1 on`);
  const timeoutMs = timeout === undefined ? undefined : durationMs('timeout', timeout);
  if (timeoutMs !== undefined && timeoutMs <= 0) {
    throw new UsageError(`--timeout ${timeout} is not a time to wait`);
  }
  const namespace = namespaceOf(given);
  const server = await serverOf(given);
  const most = count === undefined ? Number.POSITIVE_INFINITY : Number(count);
  return { server, namespace, count: most, timeoutMs, asJson: output === 'json' };
}

async function follow(request: Request, io: Io, means: Tracing): Promise<number> {
  const { asJson, count, namespace, server, timeoutMs } = request;
  const { end, signal } = means;
  const lines = new DropLines({
    ...{ stdout: io.stdout, stderr: io.stderr, asJson, now: () => performance.now() },
    own: new Set(interfaceAddresses().map(({ bytes }) => formatAddress(bytes))),
    explain: (to, from) => orElse(ask(server, 'explain', { to, from }), undefined, isUnanswered),
  });
  await whileRead(io, 'drops', async (reader) => {
    await watchDrops({
      ...means,
      services: () => addressesOf(server, namespace),
      signal: AbortSignal.any([reader.signal, signal]),
      started: () => {
        if (timeoutMs !== undefined) setTimeout(end, timeoutMs).unref();
        io.stderr.write('Watching packets to Services that are dropped or refused on this node.\n');
      },
      report: async (drop) => {
        await lines.print(drop);
        if (lines.found >= count) end();
      },
    });
    lines.rest();
  });
  return lines.found > 0 ? exitCodes.unhealthy : exitCodes.healthy;
}

/** Addresses and node ports of Services, as keys of sets. */
async function addressesOf(server: string, namespace: string | undefined) {
  const query = { limit: '1000', ...(namespace && { namespace }) };
  const { items } = await askPages(server, 'services', query);
  const none = () => ({ addresses: new Set<string>(), nodePorts: new Set<string>() });
  const all: Record<Family, ReturnType<typeof none>> = { IPv4: none(), IPv6: none() };
  for (const { clusterIPs, externalIPs, ports } of items) {
    for (const text of [...clusterIPs, ...externalIPs]) {
      const address = parseAddress(text);
      if (address === undefined) continue;
      all[address.family].addresses.add(binary(address.bytes));
    }
    for (const { nodePort, protocol } of ports) {
      if (nodePort === undefined) continue;
      const key = binary(destinationKey(undefined, IPPROTO[protocol], nodePort));
      for (const { nodePorts } of Object.values(all)) nodePorts.add(key);
    }
  }
  return all;
}

/** The most lines in a second; for each the process is asked. */
const linesMax = 20;

interface LinesOptions extends Pick<Io, 'stdout' | 'stderr'> {
  readonly asJson: boolean;
  /** Addresses of this machine, as text. */
  readonly own: ReadonlySet<string>;
  /** What the rules of this proxy do with packets; undefined: not known. */
  readonly explain: (
    to: string,
    from: string,
  ) => Promise<Pick<Explanation, 'outcome' | 'service' | 'summary' | 'warnings'> | undefined>;
  /** Milliseconds, monotonic. */
  readonly now: () => number;
}

export class DropLines {
  /** The number of lines. */
  found = 0;
  readonly #options: LinesOptions;
  #secondMs = Number.NEGATIVE_INFINITY;
  #lines = 0;
  #leftOut = 0;

  constructor(options: LinesOptions) {
    this.#options = options;
  }

  async print(drop: Drop): Promise<void> {
    const { asJson, explain, now, own, stdout } = this.#options;
    const nowMs = now();
    if (nowMs - this.#secondMs >= 1000) {
      this.rest();
      [this.#secondMs, this.#lines] = [nowMs, 0];
    }
    if (this.#lines === linesMax || stdout.isPending) {
      this.#leftOut += 1;
      return;
    }
    this.#lines += 1;
    this.found += 1;
    const client = formatAddress(drop.client);
    const to = `${formatEndpoint(drop.address, drop.port)}/${drop.protocol}`;
    const found = foundOf(drop, client, await explain(to, own.has(client) ? 'node' : client));
    stdout.write(asJson ? `${JSON.stringify(found)}\n` : lineOf(found));
  }

  /** Says how many lines were not printed. */
  rest(): void {
    const { stderr } = this.#options;
    if (this.#leftOut > 0) stderr.write(`${this.#leftOut} more were not shown.\n`);
    this.#leftOut = 0;
  }
}

function foundOf(
  drop: Drop,
  client: string,
  explained: Awaited<ReturnType<LinesOptions['explain']>>,
): FoundDrop {
  const { address, because, interface: name, outcome, port, protocol } = drop;
  const { outcome: own = 'endpoint', service, summary = '', warnings = [] } = explained ?? {};
  const isRefused = own !== 'endpoint' && own !== 'routed';
  const isOurs = drop.isOurs ?? (isRefused && outcome === 'unknown');
  const isByRule = outcome === 'dropped' || outcome === 'rejected';
  const unseen = warnings[0] ?? 'It did not get through; a second packet would show where.';
  return {
    ...{ apiVersion, kind: 'Drop', time: new Date().toISOString() },
    ...{ client, interface: name, address: formatAddress(address), port, protocol },
    family: address.length === 4 ? 'IPv4' : 'IPv6',
    service: service && formatServicePort(`${service.namespace}/${service.name}`, service.port),
    outcome: outcome === 'unknown' && isRefused && own !== 'nobody' ? own : outcome,
    by: isOurs ? 'fairlead' : isByRule ? 'another program' : 'unknown',
    because: isOurs && isRefused ? summary : (because ?? unseen),
  };
}

/** `14:02:11 10.244.1.4 to 10.96.0.10:80/TCP (shop/web:http) dropped by another program: …` */
function lineOf(found: FoundDrop): string {
  const { address, because, by, client, outcome, port, protocol, service, time } = found;
  const to = `${joinHostPort(address, port)}/${protocol}`;
  const fate =
    by === 'unknown' || outcome === 'unknown' ? 'did not get through' : `${outcome} by ${by}`;
  const whose = service === undefined ? '' : ` (${service})`;
  return `${time.slice(11, 19)} ${client} to ${to}${whose} ${fate}: ${because}\n`;
}

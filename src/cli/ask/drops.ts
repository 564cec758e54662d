/** `fairlead drops`: which packets to Services are dropped or refused on this node, live. */
import type { FoundDrop } from '../../ask/drops.ts';
import type { Explanation } from '../../ask/explanation.ts';
import { apiVersion } from '../../ask/paths.ts';
import { interfaceAddresses } from '../../host/interfaces.ts';
import { orElse } from '../../kernel/errors.ts';
import {
  type Family,
  formatAddress,
  formatEndpoint,
  joinHostPort,
  parseAddress,
} from '../../net/address.ts';
import { formatServicePort } from '../../net/protocol.ts';
import { type Drop, watchDrops } from '../../tools/trace/drops.ts';
import { nodePortKey } from '../../tools/trace/drops-table.ts';
import type { Given, Io, Run } from '../command.ts';
import { exitCodes, isUnanswered, UsageError } from '../errors.ts';
import { durationMs } from '../flags.ts';
import { readerOf } from '../reader.ts';
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

/** The most lines in a second; each asks the process for an explanation. */
const linesMax = 20;

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
  const { count, server, timeoutMs } = request;
  const { end, signal } = means;
  const reader = readerOf(io);
  const printer = new Printer(request, io);
  try {
    await watchDrops({
      ...means,
      services: () => addressesOf(server),
      signal: AbortSignal.any([reader.signal, signal]),
      started: () => {
        if (timeoutMs !== undefined) setTimeout(end, timeoutMs).unref();
        io.stderr.write('Watching packets to Services that are dropped or refused on this node.\n');
      },
      report: async (drop) => {
        await printer.print(drop);
        if (printer.found >= count) end();
      },
    });
  } finally {
    reader.close();
  }
  printer.rest();
  if (reader.reason !== undefined) io.stderr.write(`fairlead: drops: ${reader.reason}\n`);
  return printer.found > 0 ? exitCodes.unhealthy : exitCodes.healthy;
}

/** Addresses and node ports of all Services, as keys of sets. */
async function addressesOf(server: string) {
  const { items } = await askPages(server, 'services', { limit: '1000' });
  const none = () => ({ addresses: new Set<string>(), nodePorts: new Set<string>() });
  const all: Record<Family, ReturnType<typeof none>> = { IPv4: none(), IPv6: none() };
  for (const { clusterIPs, externalIPs, ports } of items) {
    for (const text of [...clusterIPs, ...externalIPs]) {
      const address = parseAddress(text);
      if (address === undefined) continue;
      all[address.family].addresses.add(Buffer.from(address.bytes).toString('latin1'));
    }
    for (const { nodePort, protocol } of ports) {
      if (nodePort === undefined) continue;
      for (const { nodePorts } of Object.values(all))
        nodePorts.add(nodePortKey(protocol, nodePort));
    }
  }
  return all;
}

class Printer {
  found = 0;
  readonly #request: Request;
  readonly #io: Io;
  readonly #own = new Set(interfaceAddresses().map(({ bytes }) => formatAddress(bytes)));
  #secondMs = 0;
  #lines = 0;
  #leftOut = 0;

  constructor(request: Request, io: Io) {
    this.#request = request;
    this.#io = io;
  }

  /** Asks what the rules of this proxy do with it, and prints a line. */
  async print(drop: Drop): Promise<void> {
    const nowMs = performance.now();
    if (nowMs - this.#secondMs >= 1000) {
      this.rest();
      [this.#secondMs, this.#lines] = [nowMs, 0];
    }
    if (this.#lines >= linesMax || this.#io.stdout.isPending) {
      this.#leftOut += 1;
      return;
    }
    const { asJson, namespace, server } = this.#request;
    const client = formatAddress(drop.client);
    const to = `${formatEndpoint(drop.address, drop.port)}/${drop.protocol}`;
    const from = this.#own.has(client) ? 'node' : client;
    const explained = await orElse(ask(server, 'explain', { to, from }), undefined, isUnanswered);
    const found = foundOf(drop, client, explained);
    if (namespace !== undefined && explained?.service?.namespace !== namespace) return;
    this.#lines += 1;
    this.found += 1;
    this.#io.stdout.write(asJson ? `${JSON.stringify(found)}\n` : lineOf(found));
  }

  /** Says how many lines were not printed. */
  rest(): void {
    if (this.#leftOut > 0) this.#io.stderr.write(`${this.#leftOut} more were not shown.\n`);
    this.#leftOut = 0;
  }
}

function foundOf(drop: Drop, client: string, explained: Explanation | undefined): FoundDrop {
  const { address, because, interface: name, outcome, port, protocol } = drop;
  const { outcome: own = 'endpoint', service, summary = '', warnings = [] } = explained ?? {};
  const isOurs = own !== 'endpoint' && outcome !== 'lost';
  const isByRule = outcome === 'dropped' || outcome === 'rejected';
  const unseen = warnings[0] ?? 'It did not get through; a second packet would show where.';
  return {
    ...{ apiVersion, kind: 'Drop' },
    time: new Date().toISOString(),
    ...{ client, interface: name, address: formatAddress(address), port, protocol },
    family: address.length === 4 ? 'IPv4' : 'IPv6',
    service: service && formatServicePort(`${service.namespace}/${service.name}`, service.port),
    outcome: outcome === 'unknown' && own !== 'endpoint' && own !== 'nobody' ? own : outcome,
    by: isOurs ? 'fairlead' : isByRule ? 'another program' : 'unknown',
    because: isOurs ? summary : (because ?? unseen),
  };
}

/** `14:02:11 10.244.1.4 to 10.96.0.10:80/TCP (shop/web:http) dropped by another program: …` */
function lineOf(found: FoundDrop): string {
  const { address, because, by, client, outcome, port, protocol, service, time } = found;
  const to = `${joinHostPort(address, port)}/${protocol}`;
  const fate = by === 'unknown' ? 'did not get through' : `${outcome} by ${by}`;
  const whose = service === undefined ? '' : ` (${service})`;
  return `${time.slice(11, 19)} ${client} to ${to}${whose} ${fate}: ${because}\n`;
}

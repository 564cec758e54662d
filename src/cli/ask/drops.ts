/** `fairlead drops`: which packets to Services are dropped or refused on this node, live. */
import { interfaceAddresses } from '../../host/interfaces.ts';
import { orElse } from '../../kernel/errors.ts';
import { IPPROTO } from '../../kernel/nft/constants.ts';
import { binary, destinationKey } from '../../modes/elements.ts';
import { type Family, formatAddress, parseAddress } from '../../net/address.ts';
import { watchDrops } from '../../tools/trace/drops.ts';
import type { Given, Io, Run } from '../command.ts';
import { exitCodes, isUnanswered, UsageError } from '../errors.ts';
import { durationMs } from '../flags.ts';
import { whileRead } from '../reader.ts';
import { ask, askPages } from './client.ts';
import { DropLines } from './drop-lines.ts';
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

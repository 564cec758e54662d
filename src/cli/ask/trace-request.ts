/** Parses the arguments of `fairlead trace`. */
import { addressBytes, parseAddress, parseCIDR } from '../../net/address.ts';
import { splitTarget } from '../../net/host-port.ts';
import type { Protocol } from '../../net/protocol.ts';
import type { Sender, Target } from '../../tools/trace/target.ts';
import type { Given } from '../command.ts';
import { isUnanswered, UsageError } from '../errors.ts';
import { durationMs } from '../flags.ts';
import { ask } from './client.ts';
import { readTarget } from './names.ts';
import { serverOf } from './server.ts';

export interface TraceRequest {
  readonly server: string;
  readonly output: string | undefined;
  readonly target: Target;
  /** Other protocols of the port, which are not traced. */
  readonly others: readonly Protocol[];
  readonly sender: Sender;
  readonly count: number;
  readonly timeoutMs: number;
}

const timeoutDefault = '30s';
/** The events of this number of packets fit into the socket's receive buffer. */
const countMax = 100;

/** Rejects with a UsageError, or as `ask` does if the process of this node must answer. */
export async function readTraceRequest(given: Given): Promise<TraceRequest> {
  const { count = '1', from, output, timeout = timeoutDefault } = given.values;
  const number = /^\d+$/.test(count) ? Number(count) : 0;
  if (number < 1 || number > countMax) {
    throw new UsageError(`--count "${count}" is not a number from 1 to ${countMax}`);
  }
  const timeoutMs = durationMs('timeout', timeout);
  if (timeoutMs <= 0) throw new UsageError(`--timeout ${timeout} is not a time to wait`);
  const word = readTarget(given.words[0]!, given);
  const server = await serverOf(given);
  const sender = senderOf(from);
  const { others, target } = await targetOf(server, word);
  if (sender.kind === 'addresses' && sender.block.address.family !== target.address.family) {
    throw new UsageError(`--from ${from} and the address that it sends to are of two families`);
  }
  return { server, output, target, others, sender, count: number, timeoutMs };
}

function senderOf(from: string | undefined): Sender {
  if (from === undefined) return { kind: 'anyone' };
  if (from === 'node') return { kind: 'node' };
  const address = parseAddress(from);
  const block =
    address === undefined
      ? parseCIDR(from)
      : { address, prefixLength: 8 * addressBytes[address.family] };
  if (block !== undefined) return { kind: 'addresses', block };
  const hint =
    from === 'pod' || from === 'outside'
      ? ': name its address, or the block of such addresses'
      : '';
  throw new UsageError(`--from "${from}" is not an address, a block of addresses, or node${hint}`);
}

/**
 * Asks the process for the address of a name, and for the protocol of the Service's port. `text`:
 * see `readTarget`.
 */
async function targetOf(
  server: string,
  text: string,
): Promise<Pick<TraceRequest, 'others' | 'target'>> {
  const { host, port, protocol = 'TCP' } = splitTarget(text)!;
  const address = parseAddress(host);
  try {
    const { also = [], to } = await ask(server, 'explain', { to: text });
    const target = { ...to, address: parseAddress(to.address)! };
    return { target, others: also.map((one) => one.to.protocol) };
  } catch (error) {
    if (!isUnanswered(error) || address === undefined) throw error;
    return { target: { address, port: Number(port), protocol }, others: [] };
  }
}

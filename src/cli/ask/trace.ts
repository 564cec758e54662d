/** `fairlead trace`: what happens to real packets, as the kernel reports it rule by rule. */
import type { Explanation } from '../../ask/explanation.ts';
import { apiVersion } from '../../ask/paths.ts';
import type { Trace } from '../../ask/trace.ts';
import { type Block, bad, type Fact, tableIf } from '../../ask/view.ts';
import { isFine, type Reached, reach } from '../../host/reach.ts';
import { openConntrack } from '../../kernel/conntrack.ts';
import { isKernelError, orElse } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { addressBytes, formatAddress, parseAddress, parseCIDR } from '../../net/address.ts';
import { splitTarget } from '../../net/host-port.ts';
import type { Protocol } from '../../net/protocol.ts';
import { blocksText, factsText, stepsText } from '../../serve/text.ts';
import { findLegacyTables } from '../../takeover/legacy-tables.ts';
import { byEndpoint } from '../../tools/trace/ending.ts';
import { type Sender, type Target, targetText } from '../../tools/trace/target.ts';
import { nothingCame, type TracedPacket, trace } from '../../tools/trace/tracer.ts';
import type { Given, Io, Run } from '../command.ts';
import { exitCodes, isUnanswered, UsageError } from '../errors.ts';
import { durationMs } from '../flags.ts';
import { isForPeople, writerOf } from '../output.ts';
import { ask } from './client.ts';
import { readTarget } from './names.ts';
import { serverOf } from './server.ts';
import { type Tracing, tracing } from './tracing.ts';

/** After this pause a SYN has passed all hooks, and an answer from a near endpoint has arrived. */
const quietMs = 300;
const settleMs = 1000;

/** Exit code 0: all packets were sent to endpoints, and none was refused there. */
export const run: Run = async (given, io) => {
  const write = writerOf(given.values.output);
  const request = await readTraceRequest(given);
  return tracing(io, async (means) => {
    const { found, hasFailed } = await follow(request, io, means);
    if (!isForPeople(request.output)) io.stdout.write(write(found, () => ''));
    const { packets } = found;
    const isHealthy = packets.length > 0 && packets.every(({ failed }) => !failed) && !hasFailed;
    return isHealthy ? exitCodes.healthy : exitCodes.unhealthy;
  });
};

/** `hasFailed`: whether a packet sent by the command itself failed. */
async function follow(
  request: TraceRequest,
  io: Io,
  means: Tracing,
): Promise<{ readonly found: Trace; readonly hasFailed: boolean }> {
  const { count, output, sender, server, target, timeoutMs } = request;
  const { end, kernel, signal } = means;
  const isShown = isForPeople(output);
  const conntrack = openConntrack();
  // After this time, the rules have processed the packets of the probe.
  const probed = (): void => void setTimeout(end, settleMs).unref();
  try {
    const warnings = await legacyWarnings(kernel);
    const sent: Reached[] = [];
    let probing: Promise<void> = Promise.resolve();
    const { hasLost, packets } = await trace({
      ...{ ...means, conntrack, target, sender, count, timeoutMs, quietMs },
      explain: (from) => explanationOf(server, target, from),
      started: () => {
        if (sender.kind === 'node') probing = probes(target, count, sent, probed);
        io.stderr.write(startText(request));
      },
      probed: (port) => answerTo(sent.find(({ sourcePort }) => sourcePort === port)),
      report: (packet) => {
        if (isShown) io.stdout.write(packetText(packet, target));
      },
    });
    if (hasLost) warnings.push('The kernel could not keep all events: steps may be missing.');
    await probing;
    const probe = sent.length === 0 ? undefined : probesText(target, sent);
    const { address, port, protocol } = target;
    const to = { address: formatAddress(address.bytes), port, protocol, family: address.family };
    if (packets.length === 0 && probe === undefined && !signal.aborted) {
      warnings.push(nothingCame(target, sender, timeoutMs));
    }
    const endpoints = byEndpoint(packets);
    const found: Trace = { apiVersion, kind: 'Trace', to, warnings, packets, endpoints, probe };
    if (isShown) io.stdout.write(blocksText(endOf(found)));
    return { found, hasFailed: sent.some(({ answer }) => !isFine(answer)) };
  } finally {
    conntrack.close();
  }
}

async function legacyWarnings(kernel: Kernel): Promise<string[]> {
  const tables = await orElse(findLegacyTables(kernel), [], isKernelError);
  if (tables.length === 0) return [];
  return [
    `Rules of iptables-legacy do not show in a trace, and there are some: ${tables.join('; ')}.`,
  ];
}

/** Sends probes one after the other, so that the packets of each are reported together. */
async function probes(
  target: Target,
  count: number,
  sent: Reached[],
  done: () => void,
): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    const one = await probe(target);
    // This program cannot send such packets, so the trace continues with those of other programs.
    if (one === undefined) return;
    sent.push(one);
  }
  done();
}

/** The result of a probe's packet. If it was not answered, connection tracking knows more. */
function answerTo(one: Reached | undefined): TracedPacket['answered'] {
  if (one?.answer === 'refused') return 'refused';
  return one?.answer === 'connected' || one?.answer === 'answered' ? 'yes' : undefined;
}

/** Undefined when the process of this node does not answer, or refuses to explain this. */
async function explanationOf(
  server: string,
  target: Target,
  from: string,
): Promise<Explanation | undefined> {
  return orElse(ask(server, 'explain', { to: targetText(target), from }), undefined, isUnanswered);
}

function startText({ count, others, sender, target, timeoutMs }: TraceRequest): string {
  const [what, asks] =
    count === 1 ? ['the next packet', 'asks'] : [`the next ${count} packets`, 'ask'];
  const first = target.protocol === 'TCP' ? ` that ${asks} for a connection` : '';
  const how = sender.kind === 'node' ? ', and sending from this node' : '';
  const also = others.map((one) => `The port has ${one} as well: end the target with /${one}.\n`);
  const line = `Tracing ${what} to ${targetText(target)}${first} for ${timeoutMs / 1000} s${how}.\n`;
  return [line, ...also].join('');
}

function packetText(packet: TracedPacket, target: Target): string {
  const { because, destination, ended, explained, failed, outcome, source, steps } = packet;
  const by = packet.interface === undefined ? '' : `, in by ${packet.interface}`;
  const tone = failed ? 'bad' : 'good';
  const facts: Fact[] = [
    ['Packet', `${source} to ${targetText(target)}${by}`],
    ['Outcome', outcome === 'endpoint' ? `endpoint ${destination}` : bad(outcome)],
    ['Because', because],
    ...(ended === because ? [] : [['Ended', { text: ended, tone }] as Fact]),
  ];
  if (explained !== undefined) {
    facts.push(['Explained', `${explained.outcome}: ${explained.summary}`]);
    for (const warning of explained.warnings) facts.push(['Warning', bad(warning)]);
  }
  return `${factsText(facts)}\n${stepsText(steps)}\n`;
}

function endOf({ endpoints, packets, probe, warnings }: Trace): Block[] {
  const failed = packets.filter((packet) => packet.failed).length;
  const facts: Fact[] = [
    ...warnings.map((warning): Fact => ['Warning', bad(warning)]),
    ...(probe === undefined ? [] : [['Sent', probe] as Fact]),
    ...(packets.length < 2
      ? []
      : [['In all', `${failed} of ${packets.length} packets failed`] as Fact]),
  ];
  const rows = packets.length < 2 ? [] : endpoints.map(Object.values<string | number>);
  const columns = ['Endpoint', 'Packets', 'Refused', 'Not answered'].map((name) => ({ name }));
  return [
    ...(facts.length === 0 ? [] : [{ facts }]),
    ...tableIf({ title: 'Endpoints', columns, rows }),
  ];
}

const patienceMs = 1000;

/**
 * Sends packets in the same way as any program of this node. Resolves to the outcome; undefined:
 * this program cannot send such packets.
 */
function probe({ address, port, protocol }: Target): Promise<Reached | undefined> {
  const to = { address: formatAddress(address.bytes), family: address.family, port };
  return reach(protocol, to, patienceMs);
}

/** The outcome of all of them, in a sentence. */
export function probesText(target: Target, all: readonly Reached[]): string {
  const what = target.protocol === 'TCP' ? 'connection' : 'datagram';
  const to = `of this node to ${targetText(target)}`;
  if (all.length === 1) return `The ${what} ${to} ${fateOf(all[0]!)}.`;
  const fates = Array.from(Map.groupBy(all, fateOf), ([fate, { length }]) => {
    return `${length} ${length === 1 ? fate : fate.replace(/^was/, 'were')}`;
  });
  return `Of ${all.length} ${what}s ${to}, ${fates.join('; ')}.`;
}

function fateOf({ answer, error }: Reached): string {
  if (answer === 'connected') return 'was accepted';
  if (answer === 'answered') return 'was answered';
  if (answer === 'silent') return 'was sent, and nothing came back';
  if (answer === 'timeout') return `was not answered within ${patienceMs / 1000} s`;
  return `failed: ${error}`;
}

/** What the arguments of `fairlead trace` ask for. */
interface TraceRequest {
  readonly server: string;
  readonly output: string | undefined;
  readonly target: Target;
  /** Other protocols of the port, which are not traced. */
  readonly others: readonly Protocol[];
  readonly sender: Sender;
  readonly count: number;
  readonly timeoutMs: number;
}

export const timeoutDefault = '30s';
/** The events of this number of packets fit into the socket's receive buffer. */
const countMax = 100;

/** Rejects with a UsageError, or as `ask` does if the process of this node must answer. */
async function readTraceRequest(given: Given): Promise<TraceRequest> {
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

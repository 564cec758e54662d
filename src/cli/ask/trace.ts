/** `fairlead trace`: what becomes of real packets, as the kernel reports it rule by rule. */
import { randomBytes } from 'node:crypto';
import type { Explanation } from '../../ask/explanation.ts';
import { apiVersion } from '../../ask/schema.ts';
import type { Trace } from '../../ask/trace.ts';
import { hostFiles } from '../../host/files.ts';
import { openConntrack } from '../../kernel/conntrack.ts';
import { isNotPermitted, KernelError } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { openKernel } from '../../kernel/native-kernel.ts';
import { formatAddress } from '../../net/address.ts';
import { findLegacyTables } from '../../takeover/legacy-tables.ts';
import { interfaceNames } from '../../trace/interface-names.ts';
import { probe } from '../../trace/probe.ts';
import { type Target, targetText } from '../../trace/target.ts';
import { NoTracingError, nothingCame, type TracedPacket, trace } from '../../trace/tracer.ts';
import type { Io, Run } from '../command.ts';
import { exitCodes, RefusedError, UnreachableError } from '../errors.ts';
import { isForPeople, writerOf } from '../output.ts';
import { factsText, stepsText } from '../text.ts';
import { ask } from './client.ts';
import { readWanted, type Wanted } from './trace-wanted.ts';

/** After this pause a SYN has passed all hooks, and an answer from nearby has come. */
const quietMs = 300;
const settleMs = 1000;

/** Exit code 0: all packets went to endpoints. */
export const run: Run = async (given, io) => {
  const write = await writerOf(given.values.output);
  const wanted = await readWanted(given);
  try {
    const found = await follow(wanted, io);
    const { output } = wanted;
    if (!isForPeople(output)) io.stdout.write(write(found, () => ''));
    const isHealthy = found.packets.every(({ outcome }) => outcome === 'endpoint');
    return isHealthy && found.packets.length > 0 ? exitCodes.healthy : exitCodes.unhealthy;
  } catch (error) {
    if (!(error instanceof KernelError || error instanceof NoTracingError)) throw error;
    const hint = isNotPermitted(error) ? ': tracing needs CAP_NET_ADMIN' : '';
    io.stderr.write(`Error: ${error.message}${hint}\n`);
    return exitCodes.unhealthy;
  }
};

async function follow(wanted: Wanted, io: Io): Promise<Trace> {
  const { count, output, sender, server, target, timeoutMs } = wanted;
  const isShown = isForPeople(output);
  const kernel = openKernel();
  const events = openKernel();
  const conntrack = openConntrack();
  const ending = new AbortController();
  const end = (): void => ending.abort();
  // After that time, packets of the probe have met their rules.
  const probed = (): void => void setTimeout(end, settleMs).unref();
  process.once('SIGINT', end).once('SIGTERM', end);
  try {
    const warnings = await legacyWarnings(kernel);
    let probing: Promise<string | undefined> = Promise.resolve(undefined);
    const { hasLost, packets } = await trace({
      kernel,
      events,
      conntrack,
      target,
      sender,
      count,
      timeoutMs,
      quietMs,
      signal: ending.signal,
      table: `fairlead-trace-${randomBytes(4).toString('hex')}`,
      interfaceName: interfaceNames(hostFiles()),
      explain: (from) => explanationOf(server, target, from),
      started: () => {
        if (sender.kind === 'node') probing = probes(target, count, probed);
        io.stderr.write(startText(wanted));
      },
      told: (packet) => {
        if (isShown) io.stdout.write(packetText(packet, target));
      },
    });
    if (hasLost) warnings.push('The kernel could not keep all events: steps may be missing.');
    const probe = await probing;
    const { address, port, protocol } = target;
    const to = { address: formatAddress(address.bytes), port, protocol, family: address.family };
    if (packets.length === 0 && probe === undefined && !ending.signal.aborted) {
      warnings.push(nothingCame(target, sender, timeoutMs));
    }
    const found: Trace = { apiVersion, kind: 'Trace', to, warnings, packets, probe };
    if (isShown) io.stdout.write(endText(found));
    return found;
  } finally {
    process.off('SIGINT', end).off('SIGTERM', end);
    kernel.close();
    events.close();
    conntrack.close();
  }
}

async function legacyWarnings(kernel: Kernel): Promise<string[]> {
  try {
    const tables = await findLegacyTables(kernel);
    if (tables.length === 0) return [];
    return [
      `Rules of iptables-legacy do not show in a trace, and there are some: ${tables.join('; ')}.`,
    ];
  } catch (error) {
    if (error instanceof KernelError) return [];
    throw error;
  }
}

/** Probes one after the other, so that the packets of each are reported together. */
async function probes(
  target: Target,
  count: number,
  done: () => void,
): Promise<string | undefined> {
  let last: string | undefined;
  for (let i = 0; i < count; i += 1) last = await probe(target);
  // Undefined: this program cannot send such packets, so the trace goes on for those of others.
  if (last !== undefined) done();
  return last;
}

/** Undefined when the process of this node does not answer, or refuses to explain this. */
async function explanationOf(
  server: string,
  target: Target,
  from: string,
): Promise<Explanation | undefined> {
  try {
    return await ask(server, 'explain', { to: targetText(target), from });
  } catch (error) {
    if (error instanceof UnreachableError || error instanceof RefusedError) return undefined;
    throw error;
  }
}

function startText({ count, others, sender, target, timeoutMs }: Wanted): string {
  const what = count === 1 ? 'the next packet' : `the next ${count} packets`;
  const first = target.protocol === 'TCP' ? ' that asks for a connection' : '';
  const how = sender.kind === 'node' ? ', and sending from this node' : '';
  const also = others.map((one) => `The port has ${one} as well: end the target with /${one}.\n`);
  const line = `Tracing ${what} to ${targetText(target)}${first} for ${timeoutMs / 1000} s${how}.\n`;
  return [line, ...also].join('');
}

function packetText(packet: TracedPacket, target: Target): string {
  const { answered, because, destination, explained, outcome, source, steps } = packet;
  const by = packet.interface === undefined ? '' : `, in by ${packet.interface}`;
  const lines: [string, string][] = [
    ['Packet', `${source} to ${targetText(target)}${by}`],
    ['Outcome', outcome === 'endpoint' ? `endpoint ${destination}` : outcome],
    ['Because', because],
  ];
  if (answered !== undefined) {
    const no = 'not yet: the fault may be at its end, or on the way back';
    lines.push(['Answered', answered === 'yes' ? 'yes' : no]);
  }
  if (explained !== undefined) {
    lines.push(['Explained', `${explained.outcome}: ${explained.summary}`]);
  }
  return `${factsText(lines)}\n${stepsText(steps)}\n`;
}

function endText({ probe, warnings }: Trace): string {
  const lines = warnings.map((warning): [string, string] => ['Warning', warning]);
  if (probe !== undefined) lines.push(['Sent', probe]);
  return lines.length === 0 ? '' : factsText(lines);
}

/** Turns on the kernel's tracing of packets, and reports what happens to each. */
import type { Explanation } from '../../ask/explanation.ts';
import type { Trace } from '../../ask/trace.ts';
import type { Conntrack } from '../../kernel/conntrack.ts';
import { IPS } from '../../kernel/conntrack-entries.ts';
import { KernelError } from '../../kernel/errors.ts';
import { failureOf, refusal } from '../../kernel/failures.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { formatAddress } from '../../net/address.ts';
import { sameBytes } from '../../net/bytes.ts';
import { endingOf } from './ending.ts';
import { Explained } from './explained.ts';
import { type Headers, sourceText } from './headers.ts';
import { markingTable } from './marking-table.ts';
import { describePacket } from './packet-description.ts';
import { type Packet, Packets } from './packets.ts';
import type { FindFault } from './routing-fault.ts';
import { Ruleset } from './ruleset.ts';
import { type Sender, type Target, targetText } from './target.ts';

export type TracedPacket = Trace['packets'][number];

export interface TraceOptions {
  readonly kernel: Kernel;
  /**
   * A second socket of the same kernel: it waits for events and answers nothing else in that time.
   */
  readonly events: Kernel;
  readonly conntrack: Conntrack;
  readonly target: Target;
  readonly sender: Sender;
  /** The most packets to trace, each of another socket of a client. */
  readonly count: number;
  readonly timeoutMs: number;
  /** A packet without an event for this time has reached its end. */
  readonly quietMs: number;
  /** Ends the trace. What the kernel has reported by then is described. */
  readonly signal: AbortSignal;
  /** The name of an interface by its index. */
  readonly interfaceName: (index: number) => string;
  /**
   * The explanation by the process of this node for packets of this client; undefined: no answer.
   */
  readonly explain: (from: string) => Promise<Explanation | undefined>;
  /** Why a packet was not routed on. */
  readonly findFault: FindFault;
  /** Called when tracing has begun. */
  readonly started: () => void;
  readonly report: (packet: TracedPacket) => void;
  /** The result of the probe that was sent from this port; undefined: there was none. */
  readonly probed: (sourcePort: number) => TracedPacket['answered'];
  readonly table: string;
}

const lookMs = 100;

/** The result of a trace. */
export interface TraceResult {
  readonly packets: readonly TracedPacket[];
  /** The kernel could not keep all events for this program. */
  readonly hasLost: boolean;
}

/** Rejects with KernelError, and with `NoTracingError` if the kernel has no tables with owners. */
export async function trace(options: TraceOptions): Promise<TraceResult> {
  const { count, events, kernel, sender, signal, started, table, target, timeoutMs } = options;
  // The kernel notifies listeners when a packet arrives.
  await readEvents(events, 0);
  await borrowTable(kernel, markingTable(table, target, sender, count));
  started();
  const packets = new Packets(table);
  const { findFault, interfaceName } = options;
  const stage = { ruleset: new Ruleset(kernel), interfaceName, findFault };
  const described: TracedPacket[] = [];
  let hasLost = false;
  const endMs = performance.now() + timeoutMs;
  let isLast = false;
  while (described.length < count && !isLast) {
    isLast = signal.aborted;
    const { consistent, records } = await readEvents(events, isLast ? 0 : lookMs);
    hasLost ||= !consistent;
    const nowMs = performance.now();
    for (const one of records) if (one.kind === 'nftraceEvent') packets.take(one, nowMs);
    while (described.length < packets.all.length) {
      const packet = packets.all[described.length]!;
      if (!isLast && nowMs - packet.lastMs < options.quietMs) break;
      described.push(await descriptionOf(packet, options, stage));
      options.report(described.at(-1)!);
    }
    isLast ||= nowMs > endMs && described.length === packets.all.length;
  }
  return { packets: described, hasLost };
}

/** The events since the last call; the kernel keeps them from the first one on. */
export function readEvents(events: Kernel, waitMs: number) {
  return events.dump({ kind: 'nftraceRead', waitMs });
}

/** This kernel cannot trace without leaving rules behind. */
export class NoTracingError extends Error {}

/** Creates a table that goes with its socket. Rejects with KernelError and `NoTracingError`. */
export async function borrowTable(kernel: Kernel, ops: Uint8Array): Promise<void> {
  const failure = await failureOf(kernel, ops);
  if (failure === undefined) return;
  const { code, op } = failure;
  const isUnknown = op === 0 && (code === 'EINVAL' || code === 'EOPNOTSUPP');
  if (isUnknown) {
    throw new NoTracingError(
      'this kernel knows no tables that go with their process (Linux 5.12): a trace that is killed would be left in it',
    );
  }
  throw refusal('nft.trace', 'the table of the trace', failure);
}

async function descriptionOf(
  packet: Packet,
  options: TraceOptions,
  stage: Omit<Parameters<typeof describePacket>[1], 'explained'>,
): Promise<TracedPacket> {
  const { headers, visits } = packet;
  const { inputInterface } = visits[0]!;
  const from = inputInterface === 0 ? 'node' : formatAddress(headers.source);
  const explanation = await options.explain(from);
  const explained = new Explained(explanation?.steps ?? []);
  const description = await describePacket(packet, { ...stage, explained });
  const isGoing = description.outcome === 'endpoint' || description.outcome === 'untranslated';
  const answered = isGoing
    ? (options.probed(headers.sourcePort) ??
      (await answerOf(headers, isByRules(description), options)))
    : undefined;
  return {
    source: sourceText(headers),
    interface: inputInterface === 0 ? undefined : options.interfaceName(inputInterface),
    ...description,
    answered,
    ...endingOf({ ...description, answered }, options.target.protocol),
    explained: explanation && explainedOf(explanation),
  };
}

/** Whether rules have translated it. IPVS may do that without connection tracking. */
function isByRules({ outcome, steps }: Pick<TracedPacket, 'outcome' | 'steps'>): boolean {
  return outcome === 'endpoint' && !steps.some(({ text }) => text.startsWith('IPVS has it'));
}

function explainedOf({ outcome, summary, warnings }: Explanation): TracedPacket['explained'] {
  return { outcome, summary, warnings };
}

/**
 * Whether connection tracking has seen an answer; undefined: not known. A connection that rules
 * have translated is tracked; the kernel deletes it immediately if its first answer is a reset
 * (nf_conntrack_tcp_packet).
 */
async function answerOf(
  { source, sourcePort }: Headers,
  isTracked: boolean,
  { conntrack, target: { address, port, protocol } }: TraceOptions,
): Promise<TracedPacket['answered']> {
  const { family } = address;
  const destination = { address: address.bytes, port };
  const request = { family, protocol, state: 'any', zone: 0, destination } as const;
  try {
    const { entries } = await conntrack.dump(request);
    for (let i = 0; i < entries.length; i += 1) {
      if (!sameBytes(entries.address(i, 'originalSource'), source)) continue;
      if (entries.port(i, 'originalSource') !== sourcePort) continue;
      return (entries.status(i) & IPS.SEEN_REPLY) === 0 ? 'no' : 'yes';
    }
    return protocol === 'TCP' && isTracked ? 'refused' : undefined;
  } catch (error) {
    if (error instanceof KernelError) return undefined;
    throw error;
  }
}

/** The message if no packet has arrived. */
export function nothingCame(target: Target, sender: Sender, timeoutMs: number): string {
  const whose = sender.kind === 'anyone' ? '' : ' of this sender';
  const what = target.protocol === 'TCP' ? 'packet that asks for a connection' : 'packet';
  return (
    `No ${what} to ${targetText(target)}${whose} came to the rules of this node within ${timeoutMs / 1000} s. ` +
    'Where clients do send some, they go another way, or something in front of nf_tables takes them ' +
    '(eBPF, a network card, a load balancer). --from node has this node send one.'
  );
}

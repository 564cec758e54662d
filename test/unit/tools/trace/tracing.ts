/** Traces packets through the rules of the fake kernel. */
import type { Explanation } from '../../../../src/ask/explanation.ts';
import { parseAddress } from '../../../../src/net/address.ts';
import type { Sender, Target } from '../../../../src/tools/trace/target.ts';
import { type TraceOptions, type TraceResult, trace } from '../../../../src/tools/trace/tracer.ts';
import { FakeConntrack } from '../../../fake/conntrack.ts';
import type { FakeKernel } from '../../../fake/kernel.ts';
import type { Packet } from '../../../fake/nft-packet.ts';

export const table = 'fairlead-trace-1';

export interface Given extends Partial<TraceOptions> {
  readonly kernel: FakeKernel;
  /** What is sent while the trace runs. */
  readonly packets: readonly Packet[];
  readonly explanation?: Explanation | undefined;
}

/** Traces the first packet's destination. */
export function traced(given: Given): Promise<TraceResult> {
  const { explanation, kernel, packets } = given;
  const [first] = packets;
  return trace({
    ...{ kernel, events: kernel, conntrack: new FakeConntrack(), table, count: packets.length },
    ...{ target: targetOf(first!), sender: anyone, timeoutMs: 0, quietMs: 0 },
    signal: new AbortController().signal,
    interfaceName: (index) => `eth${index}`,
    findFault: async () => 'nobody knows',
    explain: async () => explanation,
    started: () => {
      for (const packet of packets) kernel.send(packet);
    },
    probed: () => undefined,
    report: () => {},
    ...given,
  });
}

const anyone: Sender = { kind: 'anyone' };

export function targetOf({ daddr, dport: port, protocol }: Packet): Target {
  return { address: parseAddress(daddr)!, port, protocol };
}

/** What a start would write, without writing it. */
import type { Kernel } from '../kernel/kernel.ts';
import { type KernelOp, kernelOps } from '../kernel/ops.ts';
import { readRecords } from '../kernel/records.ts';
import { untilSteady } from '../kernel/steady.ts';
import type { Drift } from '../modes/mode.ts';
import type { Planner } from '../modes/planner.ts';
import { type Forwarding, formatServicePortName } from '../state/types.ts';
import { noPause } from '../time/pacer.ts';
import { compareEach } from './comparison.ts';
import { addDrift, isDrift, noDrift } from './events.ts';

/** What a start would do in one family. */
export interface DryRun {
  /** How the kernel differs from what is desired. */
  readonly drift: Drift;
  /** Service ports, `ns/name:port`, of which something would be written. */
  readonly different: readonly string[];
  /** How many of each kind would be written: `ruleAdd`, `elementsAdd` (by element). */
  readonly writes: ReadonlyMap<KernelOp['kind'], number>;
}

/** At most this many bytes of ops wait to be counted. */
const pendingBytesMax = 1024 * 1024;

/**
 * Compares as a recovery does. `kernel` applies nothing (`dryRunOf`). The planner must not be used
 * for anything else afterwards.
 */
export async function dryRun(
  planner: Planner,
  kernel: Kernel,
  forwardings: readonly Forwarding[],
): Promise<DryRun> {
  const prepared = await planner.prepare(kernel, (ops) => kernel.apply(ops));
  // kube-proxy or another program may write in the meantime.
  const found = await untilSteady(() => prepared.observe(kernel, noPause));
  const targets = forwardings.map((forwarding) => found.adopt(forwarding));
  const repair = await found.restore(targets, noPause);
  const writes = new Map<KernelOp['kind'], number>();
  const different: string[] = [];
  let drift = noDrift;
  await compareEach(repair, targets, noPause, (target, own) => {
    drift = addDrift(drift, own);
    if (target && isDrift(own)) different.push(formatServicePortName(target.servicePort));
    // Where packets would miss what is not there yet, all of it is one batch.
    if (planner.pendingBytes >= pendingBytesMax && !planner.indivisible) count(planner, writes);
  });
  count(planner, writes);
  return { drift, different, writes };
}

function count(planner: Planner, writes: Map<KernelOp['kind'], number>): void {
  for (let batch = planner.take(); batch !== undefined; batch = planner.take()) {
    for (const op of readRecords(kernelOps, batch.ops)) {
      const isElements = op.kind === 'elementsAdd' || op.kind === 'elementsDelete';
      const one = isElements ? op.count : 1;
      writes.set(op.kind, (writes.get(op.kind) ?? 0) + one);
    }
    batch.committed({ kind: 'applied' });
  }
}

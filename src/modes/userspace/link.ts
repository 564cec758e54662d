/** The link that makes addresses of Services local. */
import { isPassing } from '../../kernel/errors.ts';
import { failureOf, refusal } from '../../kernel/failures.ts';
import type { Kernel, KernelFailure, KernelReader } from '../../kernel/kernel.ts';
import { advice, type MissingFeature } from '../../kernel/nft/probe.ts';
import { type KernelOp, kernelOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';

/**
 * The link that holds the addresses of Services. All that is on it is ours. It is the one object in
 * the kernel that outlives this process (README.md in this folder).
 */
export const linkName = 'fairlead0';
const subject = `interface ${linkName}`;

/**
 * A bridge without ports replaces a dummy link where the kernel has none: neither carries packets.
 */
const linkTypes = ['dummy', 'bridge'] as const;

const probeLink = `fl-probe-${process.pid}`.slice(0, 15);

/** Adds a link of the first type that the kernel has; one that is there stays. */
export async function addLink(kernel: Kernel, link: string): Promise<KernelFailure | undefined> {
  let failure: KernelFailure | undefined;
  for (const type of linkTypes) {
    failure = await attempt(kernel, { kind: 'linkAdd', link, type });
    if (failure?.code !== 'EOPNOTSUPP') return failure;
  }
  return failure;
}

export async function hasLink(kernel: KernelReader): Promise<boolean> {
  const { records } = await kernel.dump({ kind: 'linkGet', link: linkName });
  return records.length > 0;
}

/** Deletes the link if it is there, with all its addresses. Throws KernelError. */
export async function deleteLink(kernel: Kernel): Promise<void> {
  const failure = await attempt(kernel, { kind: 'linkDelete', link: linkName });
  if (failure !== undefined && failure.code !== 'ENODEV')
    throw refusal('userspace.cleanup', subject, failure);
}

/** What the kernel lacks; empty = nothing. Throws KernelError (EPERM) without CAP_NET_ADMIN. */
export async function probe(kernel: Kernel): Promise<readonly MissingFeature[]> {
  if (await hasLink(kernel)) return [];
  const failure = await addLink(kernel, probeLink);
  if (failure === undefined) {
    await attempt(kernel, { kind: 'linkDelete', link: probeLink });
    return [];
  }
  if (failure.code === 'EPERM' || isPassing(failure.code)) {
    throw refusal('userspace.probe', subject, failure);
  }
  const feature = `dummy links or bridges (${failure.code})`;
  return [{ feature, advice: advice('CONFIG_DUMMY or CONFIG_BRIDGE', 'dummy or bridge') }];
}

function attempt(kernel: Kernel, op: KernelOp): Promise<KernelFailure | undefined> {
  const writer = new RecordWriter(kernelOps, 256);
  writer.write(op.kind, op);
  return failureOf(kernel, writer.finish());
}

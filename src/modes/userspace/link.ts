/** The link that makes addresses of Services local. */
import { isPassing, KernelError } from '../../kernel/errors.ts';
import type { Kernel, KernelFailure } from '../../kernel/kernel.ts';
import { advice, type MissingFeature } from '../../kernel/nft/probe.ts';
import { type KernelOp, kernelOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { linkName, linkTypes } from './layout.ts';

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

export async function hasLink(kernel: Kernel): Promise<boolean> {
  const { records } = await kernel.dump({ kind: 'linkGet', link: linkName });
  return records.length > 0;
}

/** Deletes the link if it is there, with all its addresses. Throws KernelError. */
export async function deleteLink(kernel: Kernel): Promise<void> {
  const failure = await attempt(kernel, { kind: 'linkDelete', link: linkName });
  if (failure !== undefined && failure.code !== 'ENODEV')
    throw errorOf('userspace.cleanup', failure);
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
    throw errorOf('userspace.probe', failure);
  }
  const feature = `dummy links or bridges (${failure.code})`;
  return [{ feature, advice: advice('CONFIG_DUMMY or CONFIG_BRIDGE', 'dummy or bridge') }];
}

function errorOf(operation: string, { code, message }: KernelFailure): KernelError {
  return new KernelError({ operation, subject: `interface ${linkName}`, code, words: message });
}

async function attempt(kernel: Kernel, op: KernelOp): Promise<KernelFailure | undefined> {
  const writer = new RecordWriter(kernelOps, 256);
  writer.write(op.kind, op);
  const result = await kernel.apply(writer.finish());
  return result.kind === 'applied' ? undefined : result.failures[0]!;
}

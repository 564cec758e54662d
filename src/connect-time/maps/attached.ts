/** Which programs of ours are attached, whoever attached them, and the end of those. */
import { existsSync, readdirSync } from 'node:fs';
import { isKernelError, KernelError } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { kernelOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { type ConnectTimePaths, removeConnectTime } from './choice.ts';

export interface AttachedProgram {
  /** Ids of the kernel; link 0: it is not known, nor is whose program it is. */
  readonly link: number;
  readonly program: number;
  readonly name: string;
  /** Its link has one of our pins. */
  readonly isPinned: boolean;
}

type Found =
  /** Ours, of any version, for this network namespace. */
  | { readonly kind: 'ours'; readonly programs: readonly AttachedProgram[] }
  /** Programs that may be anybody's: this process may not ask whose. */
  | { readonly kind: 'anybody'; readonly programs: readonly AttachedProgram[] }
  | { readonly kind: 'refused'; readonly reason: string };

/** Asks the kernel. It needs no mount. */
export async function findAttached(kernel: Kernel, paths: ConnectTimePaths): Promise<Found> {
  const { anyCgroup, cgroup = anyCgroup ?? '', directory } = paths;
  try {
    const { records } = await kernel.dump({ kind: 'bpfAttachedGet', directory, cgroup });
    const programs = records.flatMap((one) =>
      one.kind === 'bpfAttached' ? [{ ...one, isPinned: one.isPinned !== 0 }] : [],
    );
    return { kind: programs.some(({ link }) => link === 0) ? 'anybody' : 'ours', programs };
  } catch (error) {
    if (!isKernelError(error)) throw error;
    // A kernel without bpf(2) has no programs.
    if (error.code === 'ENOSYS') return { kind: 'ours', programs: [] };
    return { kind: 'refused', reason: error.message };
  }
}

/** Names of our programs that are attached and that nothing updates; see `endUnused`. */
export async function findUnused(
  kernel: Kernel,
  paths: ConnectTimePaths,
  keepsPins: boolean,
): Promise<string[]> {
  const found = await findAttached(kernel, paths);
  return found.kind === 'ours' ? unusedOf(found, keepsPins).map(({ name }) => name) : [];
}

function unusedOf({ programs }: { programs: readonly AttachedProgram[] }, keepsPins: boolean) {
  return programs.filter(({ isPinned }) => !(keepsPins && isPinned));
}

/** Detaches programs by the ids of their links. Needs CAP_SYS_ADMIN, and no mount. */
async function detach(kernel: Kernel, programs: readonly AttachedProgram[]): Promise<void> {
  const out = new RecordWriter(kernelOps);
  for (const { link, program } of programs) out.write('bpfDetach', { link, program });
  const result = await kernel.apply(out.finish());
  if (result.kind === 'applied') return;
  const { code, message: words } = result.failures[0]!;
  const subject = programs.map(({ name }) => name).join(' ');
  throw new KernelError({ operation: 'bpf.bpfDetach', subject, code, words });
}

/** What became of programs that nothing updates. */
export interface Ending {
  /** The folder had pins, which are removed. */
  readonly isFolderRemoved: boolean;
  /** Detached by the ids of their links: their pins, if any, are out of reach. */
  readonly detached: readonly AttachedProgram[];
  /** Still attached. */
  readonly left: readonly AttachedProgram[];
  /** Why they are. */
  readonly failure?: string;
  /** Attached programs that may be anybody's, where ours would not be seen otherwise. */
  readonly unidentified: number;
  /** Why the kernel could not be asked, and our pins would not be seen either. */
  readonly unknown?: string;
}

/**
 * Ends translation by programs that nothing updates. `keepsPins`: what is pinned in the folder is
 * in use. Rejects when the folder cannot be removed.
 */
export async function endUnused(
  kernel: Kernel,
  paths: ConnectTimePaths,
  keepsPins: boolean,
): Promise<Ending> {
  const isFolderRemoved = !keepsPins && hasPins(paths);
  if (isFolderRemoved) await removeConnectTime(kernel, paths.directory);
  const ending = { isFolderRemoved, detached: [], left: [], unidentified: 0 };
  const found = await findAttached(kernel, paths);
  if (found.kind === 'refused') {
    return paths.isMounted ? ending : { ...ending, unknown: found.reason };
  }
  const unused = unusedOf(found, keepsPins);
  if (found.kind === 'anybody') {
    // With the mount, pins have shown which are ours.
    return { ...ending, unidentified: paths.isMounted ? 0 : unused.length };
  }
  if (unused.length === 0) return ending;
  try {
    await detach(kernel, unused);
    return { ...ending, detached: unused };
  } catch (error) {
    if (!isKernelError(error)) throw error;
    return { ...ending, left: unused, failure: error.message };
  }
}

/** Whether the folder has anything in it. It may be a mount, which stays. */
export function hasPins({ directory }: Pick<ConnectTimePaths, 'directory'>): boolean {
  return existsSync(directory) && readdirSync(directory).length > 0;
}

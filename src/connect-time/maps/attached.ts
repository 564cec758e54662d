/** Finds Fairlead's programs that are attached, from whatever process, and detaches them. */
import { existsSync, readdirSync } from 'node:fs';
import { isKernelError } from '../../kernel/errors.ts';
import { applyAll } from '../../kernel/failures.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { kernelOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { type ConnectTimePaths, removeConnectTime } from './choice.ts';

export interface AttachedProgram {
  /** Ids of the kernel. Link 0: the link and the owner of the program are unknown. */
  readonly link: number;
  readonly program: number;
  readonly name: string;
  /** Its link is pinned in Fairlead's folder. */
  readonly isPinned: boolean;
}

type Found =
  /** Fairlead's, of any version, for this network namespace. */
  | { readonly kind: 'ours'; readonly programs: readonly AttachedProgram[] }
  /** Programs of unknown owners: this process lacks the rights to find out. */
  | { readonly kind: 'unknown'; readonly programs: readonly AttachedProgram[] }
  | { readonly kind: 'refused'; readonly reason: string };

/** Reads attached programs from the kernel. Needs no mount. */
export async function findAttached(kernel: Kernel, paths: ConnectTimePaths): Promise<Found> {
  const { anyCgroup, cgroup = anyCgroup ?? '', directory } = paths;
  try {
    const { records } = await kernel.dump({ kind: 'bpfAttachedGet', directory, cgroup });
    const programs = records.flatMap((one) =>
      one.kind === 'bpfAttached' ? [{ ...one, isPinned: one.isPinned !== 0 }] : [],
    );
    return { kind: programs.some(({ link }) => link === 0) ? 'unknown' : 'ours', programs };
  } catch (error) {
    if (!isKernelError(error)) throw error;
    // A kernel without bpf(2) has no programs.
    if (error.code === 'ENOSYS') return { kind: 'ours', programs: [] };
    return { kind: 'refused', reason: error.message };
  }
}

/** Names of attached programs that no process updates; see `endUnused`. */
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
  const subject = programs.map(({ name }) => name).join(' ');
  await applyAll(kernel, out.finish(), 'bpf.bpfDetach', subject);
}

/** The result of `endUnused`. */
export interface Ending {
  /** The folder had pins, which were removed. */
  readonly isFolderRemoved: boolean;
  /** Detached by the ids of their links. This process cannot reach their pins, if they have any. */
  readonly detached: readonly AttachedProgram[];
  /** Still attached. */
  readonly left: readonly AttachedProgram[];
  /** Why they are still attached. */
  readonly failure?: string;
  /** Number of attached programs of unknown owners; 0 where pins identify Fairlead's. */
  readonly unidentified: number;
  /** Why attached programs could not be read, where pins are not visible either. */
  readonly unknown?: string;
}

/**
 * Detaches programs that no process updates. `keepsPins`: this process uses the programs that are
 * pinned in the folder. Rejects when the folder cannot be removed.
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
  if (found.kind !== 'ours') return { ...ending, ...doubtsAbout(found, paths, keepsPins) };
  const unused = unusedOf(found, keepsPins);
  if (unused.length === 0) return ending;
  try {
    await detach(kernel, unused);
    return { ...ending, detached: unused };
  } catch (error) {
    if (!isKernelError(error)) throw error;
    return { ...ending, left: unused, failure: error.message };
  }
}

/** What cannot be known about attached programs. */
export function doubtsAbout(
  found: Found,
  { isMounted }: ConnectTimePaths,
  keepsPins: boolean,
): Pick<Ending, 'unidentified' | 'unknown'> {
  // With the mount, pins identify Fairlead's programs.
  if (found.kind === 'ours' || isMounted) return { unidentified: 0 };
  if (found.kind === 'refused') return { unidentified: 0, unknown: found.reason };
  return { unidentified: unusedOf(found, keepsPins).length };
}

/** Whether the folder has entries. It may be a mount point, which is never removed. */
export function hasPins({ directory }: Pick<ConnectTimePaths, 'directory'>): boolean {
  return existsSync(directory) && readdirSync(directory).length > 0;
}

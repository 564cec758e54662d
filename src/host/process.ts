import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { basename } from 'node:path';
import type { HostFiles, ReadableFiles } from './files.ts';

/** This process, as the kernel sees it. */

/**
 * Names this process where tools show or look for a name: `ps`, `pidof`, `ss -p`, `progname` of nft.
 * Node's own is `MainThread`. The name is `fairlead`, or `kube-proxy` if that is the name of
 * `script`, which images start: then the command line begins with it, too, as kube-bench requires.
 * Call it before sockets are opened, whose threads inherit the name. Where /proc cannot be written,
 * the name stays as it was.
 */
export function nameProcess(script: string, args: readonly string[]): void {
  const isDropIn = basename(script) === 'kube-proxy';
  // It takes the place of the arguments that the process was started with.
  if (isDropIn) process.title = ['kube-proxy', ...args].join(' ');
  try {
    writeFileSync('/proc/self/comm', isDropIn ? 'kube-proxy' : 'fairlead');
  } catch {
    // Names are for people; everything works without.
  }
}

const path = '/proc/self/oom_score_adj';

/**
 * Sets the OOM score, so that the kernel spares this process when memory runs out (behaviour
 * document 3, step 18). Returns the error if it failed, which does not stop the start.
 */
export function setOomScore(score: number, files: HostFiles): Error | undefined {
  try {
    if (files.read(path) !== String(score)) files.write(path, String(score));
    return undefined;
  } catch (error) {
    return error as Error;
  }
}

const usualLimit = 1024;

/**
 * How many files this process may have open (the soft limit of RLIMIT_NOFILE, which Node.js raises
 * to the hard one when it starts). Where /proc does not say, it is what processes get at least.
 */
export function openFilesMax(files: ReadableFiles): number {
  const limits = files.read('/proc/self/limits') ?? '';
  const [, soft] = /^Max open files\s+(\d+|unlimited)/m.exec(limits) ?? [];
  return soft === 'unlimited' ? Number.MAX_SAFE_INTEGER : Number(soft ?? usualLimit);
}

const descriptors = '/proc/self/fd';

/** Inodes of the sockets of this process; none where /proc does not show them. */
export function ownSockets(): Set<number> {
  const inodes = new Set<number>();
  try {
    for (const name of readdirSync(descriptors)) {
      const inode = /^socket:\[(\d+)\]$/.exec(linkOf(`${descriptors}/${name}`))?.[1];
      if (inode !== undefined) inodes.add(Number(inode));
    }
  } catch {
    // Without /proc.
  }
  return inodes;
}

/** Empty if the descriptor has been closed since. */
function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

/** How many bytes this process may use: what its control group allows, else what there are. */
export function memoryMax(): number {
  const allowed = process.constrainedMemory();
  return allowed > 0 ? Math.min(allowed, totalmem()) : totalmem();
}

/**
 * How many bytes all TCP sockets of the machine may have in buffers before the kernel makes all of
 * them smaller (the second number of net.ipv4.tcp_mem). Undefined = it is not known: the kernel
 * shows it in its first network namespace alone.
 */
export function tcpPressureBytes(files: ReadableFiles): number | undefined {
  const [, pressure] = files.read('/proc/sys/net/ipv4/tcp_mem')?.split(/\s+/) ?? [];
  return pressure === undefined ? undefined : Number(pressure) * pageBytes();
}

/** Type of an entry of the auxiliary vector (getauxval(3)). */
const AT_PAGESZ = 6n;
const usualPageBytes = 4096;

function pageBytes(): number {
  const words = new BigUint64Array(Uint8Array.from(readFileSync('/proc/self/auxv')).buffer);
  for (let i = 0; i + 1 < words.length; i += 2) {
    if (words[i] === AT_PAGESZ) return Number(words[i + 1]);
  }
  return usualPageBytes;
}

import type { HostFiles } from './files.ts';

const usualLimit = 1024;

/**
 * How many files this process may have open (the soft limit of RLIMIT_NOFILE, which Node.js raises
 * to the hard one when it starts). Where /proc does not say, it is what processes get at least.
 */
export function openFilesMax(files: HostFiles): number {
  const limits = files.read('/proc/self/limits') ?? '';
  const [, soft] = /^Max open files\s+(\d+|unlimited)/m.exec(limits) ?? [];
  return soft === 'unlimited' ? Number.MAX_SAFE_INTEGER : Number(soft ?? usualLimit);
}

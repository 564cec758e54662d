import type { HostFiles } from './files.ts';

const path = '/proc/self/oom_score_adj';

/**
 * Makes the kernel spare this process when memory runs out (behaviour document 3, step 18). Returns
 * why it could not, which is no reason to stop.
 */
export function setOomScore(score: number, files: HostFiles): Error | undefined {
  try {
    if (files.read(path) !== String(score)) files.write(path, String(score));
    return undefined;
  } catch (error) {
    return error as Error;
  }
}

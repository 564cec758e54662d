import type { HostFiles } from './files.ts';

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

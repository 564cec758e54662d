/** How much memory the values take that are still referenced. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
export const collectGarbage = runInNewContext('gc') as () => void;

/** The heap of this thread, without garbage. */
export function usedBytes(): number {
  collectGarbage();
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

export function usedMiB(): number {
  return usedBytes() / 2 ** 20;
}

/** Reads of the kernel that fail if another program changes it in the meantime. */
import { describeRequest } from './describe-request.ts';
import { isKernelError, KernelError } from './errors.ts';
import type { KernelReader } from './kernel.ts';
import type { Reply, Request } from './ops.ts';

/** What was read may not be one consistent state (EINTR). */
function interrupted(operation: string, subject: string): KernelError {
  return new KernelError({ operation, subject, code: 'EINTR', words: 'changed while it was read' });
}

/** `Kernel.dump`. @throws KernelError (EINTR) if the result is not one consistent state. */
export async function steadyDump(
  kernel: Pick<KernelReader, 'dump'>,
  request: Request,
  take?: (record: Reply) => void,
): Promise<readonly Reply[]> {
  const { records, consistent } = await kernel.dump(request, take);
  if (consistent) return records;
  const { operation, subject } = describeRequest(request, 'the ruleset');
  throw interrupted(operation, subject);
}

/**
 * Repeats `read` until all of it is of one generation of the ruleset.
 *
 * @throws KernelError (EINTR) if others write all the time.
 */
export function atOneGeneration<T>(kernel: KernelReader, read: () => Promise<T>): Promise<T> {
  return untilSteady(async () => {
    const generation = await kernel.generation();
    const found = await read();
    if ((await kernel.generation()) === generation) return found;
    throw interrupted('nft.dump', 'the ruleset');
  });
}

/** The generation without the commits of this process: it is the same until others commit. */
export async function generationOfOthers(kernel: KernelReader): Promise<number> {
  const generation = await kernel.generation();
  return (generation - kernel.commits) >>> 0;
}

const attemptsMax = 5;

/** Repeats `read` while it is interrupted, but only a few times. */
export async function untilSteady<T>(read: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await read();
    } catch (error) {
      if (!isKernelError(error, 'EINTR') || attempt >= attemptsMax) throw error;
    }
  }
}

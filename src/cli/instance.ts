/** Whether another Fairlead uses this network namespace, and what follows from that. */
import {
  formatHolder,
  type InstanceLockOptions,
  type LockResult,
  takeInstanceLock,
} from '../host/instance-lock.ts';
import type { Logger } from '../serve/log.ts';

const flag = '--ignore-other-instance';

/**
 * In a rolling update the old process may still be stopping: it stops within 10 s, and its
 * supervisor kills it after 30.
 */
const patienceMs = 30_000;

interface HoldOptions extends Pick<InstanceLockOptions, 'name'> {
  readonly ignoreOther: boolean;
  readonly signal: AbortSignal;
  readonly waitMs?: number;
}

/**
 * Locks the network namespace until the process ends. Rejects if another Fairlead has the lock and
 * keeps it, unless `ignoreOther`.
 */
export async function holdNamespace(log: Logger, options: HoldOptions): Promise<void> {
  const { ignoreOther, signal, waitMs = patienceMs } = options;
  const result = await takeInstanceLock({
    ...options,
    waitMs: ignoreOther ? 0 : waitMs,
    waiting: (holder) => {
      const other = formatHolder(holder);
      log.warn(
        { other, waitMs },
        'Another instance runs in this network namespace; waiting for it to exit',
      );
    },
  });
  if (result.kind === 'unknown') {
    log.warn({ err: result.reason }, 'Could not check for another running instance; continuing');
  } else if (result.kind === 'taken' && !signal.aborted) {
    if (!ignoreOther) throw takenError(result, 'two would undo each other');
    const other = formatHolder(result.holder);
    log.warn({ other }, 'Another instance runs in this network namespace; ignoring it');
  }
}

/** For `--cleanup`: no process may write again what is being removed. */
export async function holdNamespaceForCleanup(ignoreOther: boolean, name: string): Promise<void> {
  if (ignoreOther) return;
  const result = await takeInstanceLock({ name, waitMs: 0 });
  if (result.kind === 'taken') throw takenError(result, 'it would write its rules again');
}

/**
 * As `holdNamespaceForCleanup`, for a pod that may be started while the proxy's is being ended.
 * `print` gets a line if it waits for that.
 */
export async function holdNamespaceForRemoval(
  print: (line: string) => void,
  options: Partial<InstanceLockOptions> = {},
): Promise<void> {
  const waiting: InstanceLockOptions['waiting'] = (holder) =>
    print(
      `Waiting ${patienceMs / 1000} s at most for another Fairlead to end: ${formatHolder(holder)}`,
    );
  const result = await takeInstanceLock({ waitMs: patienceMs, waiting, ...options });
  if (result.kind !== 'taken') return;
  const other = formatHolder(result.holder);
  throw new Error(`a Fairlead runs here, and needs its tables: ${other}. Stop it first`);
}

function takenError({ holder }: LockResult & { kind: 'taken' }, because: string): Error {
  const other = formatHolder(holder);
  return new Error(
    `another Fairlead runs in this network namespace, and ${because}: ${other}. ` +
      `Stop it first, or give ${flag}`,
  );
}

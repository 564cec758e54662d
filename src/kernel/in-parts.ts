/** Batches that the kernel is given in several parts. */
import type { ApplyResult, KernelFailure } from './kernel.ts';

/** An exception as a failure that names no op. */
export function asKernelFailure(error: Error & { code?: string; isHeld?: boolean }): KernelFailure {
  return {
    ...(error.isHeld === true ? { isHeld: true } : {}),
    op: undefined,
    entry: undefined,
    code: error.code ?? error.name,
    message: error.message,
  };
}

/** Applies a part when others are in force already: they stay so, however it fails. */
export async function applyLaterPart(apply: () => Promise<ApplyResult>): Promise<ApplyResult> {
  try {
    const result = await apply();
    return result.kind === 'failed' ? { ...result, partly: true } : result;
  } catch (error) {
    return { kind: 'failed', failures: [asKernelFailure(error as Error)], partly: true };
  }
}

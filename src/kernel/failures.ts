/** Failures of ops as errors, and errors as failures. */
import { KernelError } from './errors.ts';
import type { ApplyResult, Kernel, KernelFailure } from './kernel.ts';

/** Applies ops. Resolves to the first failure; undefined: all are in force. */
export async function failureOf(
  kernel: Pick<Kernel, 'apply'>,
  ops: Uint8Array,
): Promise<KernelFailure | undefined> {
  const result = await kernel.apply(ops);
  return result.kind === 'applied' ? undefined : result.failures[0]!;
}

/** Applies ops that `operation` needs on `subject`. Rejects with KernelError unless all are. */
export async function applyAll(
  kernel: Pick<Kernel, 'apply'>,
  ops: Uint8Array,
  operation: string,
  subject: string,
): Promise<void> {
  const failure = await failureOf(kernel, ops);
  if (failure !== undefined) throw refusal(operation, subject, failure);
}

/** See `KernelError`. */
export function refusal(
  operation: string,
  subject: string,
  { code, message: words }: KernelFailure,
): KernelError {
  return new KernelError({ operation, subject, code, words });
}

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

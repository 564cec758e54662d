/** Why a command failed. Each kind has its exit code. */

import { isKernelError, isNotPermitted } from '../kernel/errors.ts';

/** The meanings of the exit codes of commands. */
export const exitCodes = { healthy: 0, unhealthy: 1, usage: 2, unreachable: 3 } as const;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** The command line is wrong; the message says why. */
export class UsageError extends Error {}

/** No process answers, or the answer is not Fairlead's. */
export class UnreachableError extends Error {}

/** The process refuses to answer the question. */
export class RefusedError extends Error {
  /** The HTTP status. */
  readonly status: number;
  /** The question itself is invalid. */
  readonly isWrongQuestion: boolean;

  constructor(reason: string, status: number, isWrongQuestion = status === 400) {
    super(reason);
    this.status = status;
    this.isWrongQuestion = isWrongQuestion;
  }

  /** The Service with which the previous page ended is gone. */
  get isGone(): boolean {
    return this.status === 410;
  }
}

export function isUnanswered(error: unknown): error is UnreachableError | RefusedError {
  return error instanceof UnreachableError || error instanceof RefusedError;
}

/** Error codes of a kernel without nf_tables. */
const noNFTables = ['EPROTONOSUPPORT', 'EAFNOSUPPORT', 'EOPNOTSUPP'];

/** The error that ended the program, in one line: the cause and, if known, the remedy. */
export function describeError(error: unknown): string {
  const text = describe(error);
  return text.replace(/\s*\n\s*/g, ' ').trim();
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (isNotPermitted(error)) {
    return `CAP_NET_ADMIN is needed: run as root or add the capability (${error.message})`;
  }
  if (isKernelError(error) && noNFTables.includes(error.code)) {
    return `this kernel has no nf_tables: load module nf_tables (CONFIG_NF_TABLES) (${error.message})`;
  }
  return error.message;
}

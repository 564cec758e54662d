/** Why a command failed. Each kind has its exit code. */

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

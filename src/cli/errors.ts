/** Why a command cannot do what it was asked for. Each kind has its exit code. */

/** What the exit codes of commands mean. */
export const exitCodes = { healthy: 0, unhealthy: 1, usage: 2, unreachable: 3 } as const;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** The command line is wrong; the message says why. */
export class UsageError extends Error {}

/** No process answers, or what answers is not Fairlead. */
export class UnreachableError extends Error {}

/** The process refuses to answer the question. */
export class RefusedError extends Error {
  /** The status of HTTP. */
  readonly status: number;
  /** The question is wrong, and not what it asks about. */
  readonly isWrongQuestion: boolean;

  constructor(reason: string, status: number, isWrongQuestion = status === 400) {
    super(reason);
    this.status = status;
    this.isWrongQuestion = isWrongQuestion;
  }

  /** The Service that the page before ended with is gone. */
  get isGone(): boolean {
    return this.status === 410;
  }
}

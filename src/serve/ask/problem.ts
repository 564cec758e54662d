/** The problems of a Service, and the state in which they are found. */
import type { ProblemReason } from '../../ask/problem-reasons.ts';
import type { Excess } from '../../state/budget.ts';
import type { Seen } from '../../state/resolve.ts';
import type { Service } from '../../state/types.ts';

export interface Problem {
  readonly reason: ProblemReason;
  /** A sentence for people. */
  readonly text: () => string;
}

/** A Service as the resolver sees it. */
export interface Subject {
  readonly service: Service;
  /** All ports, or those that a question is about. */
  readonly seen: readonly Seen[];
  readonly excess: readonly Excess[];
}

/** The Services that have problems. */
export interface KnownProblems {
  /** Checks Services that have changed. Concurrent callers share the work. */
  catchUp(): Promise<void>;
  /**
   * As `counts`, after `catchUp` unless that would take long: then what is known, and a later call
   * has the rest. Undefined: some Services were never checked.
   */
  recentCounts(): Promise<KnownProblems['counts'] | undefined>;
  /** Checks a Service all of whose ports were resolved. */
  check(subject: Subject): void;
  /** The reasons of each Service that has a problem, as of the last `catchUp`. */
  readonly withProblems: ReadonlyMap<string, readonly ProblemReason[]>;
  /** The number of Services with problems, in total and by reason, as of the last `catchUp`. */
  readonly counts: {
    readonly services: number;
    readonly byReason: ReadonlyMap<ProblemReason, number>;
  };
}

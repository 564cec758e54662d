/** What is wrong with a Service, and what that is found in. */
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
  /** Its ports, or those that a question is about. */
  readonly seen: readonly Seen[];
  readonly excess: readonly Excess[];
}

/** The Services that have problems. */
export interface Judgements {
  /** Judges what has changed. Callers at the same time share the work. */
  catchUp(): Promise<void>;
  /** Judges a Service of which all ports were looked at. */
  judge(subject: Subject): void;
  /** The reasons of every Service that has any, as of the last `catchUp`. */
  readonly troubled: ReadonlyMap<string, readonly ProblemReason[]>;
  /** How many Services have problems, in all and by reason, as of the last `catchUp`. */
  readonly counts: {
    readonly services: number;
    readonly byReason: ReadonlyMap<ProblemReason, number>;
  };
}

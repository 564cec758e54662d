/** The pods of this node that a label selector chooses. They are no part of the cluster's state. */
import type { ListAttempt, SourceProblem } from './source.ts';

export interface ChosenPod {
  /** `namespace/name` */
  readonly key: string;
  /** What the kubelet calls it in names of cgroups. */
  readonly id: string;
}

/** Takes what is watched. Calls are synchronous and cheap. */
export interface PodSink {
  /** All of them: called when the first list is complete, and after each change. */
  chosen(pods: ReadonlyMap<string, ChosenPod>): void;
  /** There is no list, because the source has none or does not let us read it. */
  unavailable(reason: string): void;
  problem(problem: SourceProblem): void;
  listed(attempt: ListAttempt): void;
}

/** Tells which pods of this node `selector` chooses, until `signal` aborts; then it resolves. */
export type WatchPods = (selector: string, sink: PodSink, signal: AbortSignal) => Promise<void>;

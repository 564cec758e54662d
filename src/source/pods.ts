/**
 * The pods of this node that a label selector matches. They are not part of the cluster's state.
 */
import type { ListAttempt, SourceProblem } from './source.ts';

export interface ChosenPod {
  /** `namespace/name` */
  readonly key: string;
  /** The kubelet's identifier of the pod in names of cgroups. */
  readonly id: string;
}

/** Receives the result of the watch. Calls are synchronous and cheap. */
export interface PodSink {
  /** All matching pods: called when the first list is complete, and after each change. */
  chosen(pods: ReadonlyMap<string, ChosenPod>): void;
  /** There is no list, because the source has none or does not permit reading it. */
  unavailable(reason: string): void;
  problem(problem: SourceProblem): void;
  listed(attempt: ListAttempt): void;
}

/** Reports which pods of this node match `selector`, until `signal` aborts; then it resolves. */
export type WatchPods = (selector: string, sink: PodSink, signal: AbortSignal) => Promise<void>;

/**
 * Where objects come from. Both sources (the Kubernetes API and a directory of manifests) deliver
 * the same changes, so that everything downstream runs without a cluster.
 */
import type { Change, Resource } from '../state/change.ts';

/** Something wrong with input that does not stop the rest. */
export interface SourceProblem {
  /** The object or file: `Service default/web`, `services.yaml:12`, `endpointslices watch`. */
  readonly subject: string;
  /** Field path, where there is one. */
  readonly field: string | undefined;
  readonly reason: string;
}

/** How a list came: as a stream of events (KEP-3157), or in pages. */
export type ListWay = 'streaming' | 'paged';

/** A list of one resource that was asked for. */
export interface ListAttempt {
  readonly resource: Resource;
  readonly way: ListWay;
  readonly result: 'complete' | 'failed';
  /** Why it failed; of a complete list, why the other way failed before it, if it did. */
  readonly reason: string | undefined;
}

/** The version of an API server, in the words of its `/version`. */
export interface ServerVersion {
  /** `v1.36.2` */
  readonly gitVersion: string;
  readonly major: string;
  readonly minor: string;
  /** `linux/amd64` */
  readonly platform: string;
}

/** How the source is doing with one resource. */
export interface Condition {
  /**
   * Milliseconds since its watch last said anything, or since the first attempt to hear it.
   * Undefined before that, and while the source goes on without the resource.
   */
  readonly silenceMs: number | undefined;
  /** Milliseconds since the first list was asked for; undefined before that, and once it came. */
  readonly missingMs: number | undefined;
  /** What went wrong last; undefined = nothing since things last went well. */
  readonly failure: string | undefined;
}

/** Who listens. Calls are synchronous and cheap: they mark what changed, nothing more. */
export interface SourceSink {
  change(change: Change): void;
  /** The first complete list of this resource has been delivered. Called once a resource. */
  synced(resource: Resource): void;
  problem(problem: SourceProblem): void;
  /** A list has come, or has not. */
  listed(attempt: ListAttempt): void;
}

export interface Source {
  /**
   * Delivers until `signal` aborts; then resolves. Rejects only when it can never work (bad
   * kubeconfig, directory missing at start); outages are survived and reported as problems.
   */
  run(sink: SourceSink, signal: AbortSignal): Promise<void>;
  condition(resource: Resource): Condition;
  /** The URL of the API server; undefined where there is none, or before `run` has read it. */
  server(): string | undefined;
  /** Undefined where no API server has said it. */
  serverVersion(): ServerVersion | undefined;
}

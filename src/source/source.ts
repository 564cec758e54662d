/**
 * The source of objects. Both sources (the Kubernetes API and a directory of manifests) deliver the
 * same changes, so that the rest of the program does not need a cluster.
 */
import type { Change, Resource, Taken } from '../state/change.ts';
import type { Lookup } from './lookup.ts';

/** A problem of the input that does not stop the rest. */
export interface SourceProblem {
  /** The object or file: `Service default/web`, `services.yaml:12`, `endpointslices watch`. */
  readonly subject: string;
  /** The field path, if any. */
  readonly field: string | undefined;
  readonly reason: string;
  /** The number of objects that a comparison has corrected: then nothing is left to do. */
  readonly corrected?: number;
}

/** The method of a list: a stream of events (KEP-3157), or pages. */
export type ListMethod = 'streaming' | 'paged';

/** The resources that are listed and watched. */
export type Watched = Resource | 'pods';

/** An attempt to list one resource. */
export interface ListAttempt {
  readonly resource: Watched;
  readonly method: ListMethod;
  readonly result: 'complete' | 'failed';
  /** Why it failed. For a complete list: why the other method had failed before, if it had. */
  readonly reason: string | undefined;
}

/** The version of an API server, as in its `/version`. */
export interface ServerVersion {
  /** `v1.36.2` */
  readonly gitVersion: string;
  readonly major: string;
  readonly minor: string;
  /** `linux/amd64` */
  readonly platform: string;
}

/** The condition of one resource in the source. */
export interface Condition {
  /**
   * Milliseconds since its watch last delivered anything, or since the first attempt. Undefined
   * before that, and while the resource is not available.
   */
  readonly silenceMs: number | undefined;
  /**
   * Milliseconds since the first list was requested; undefined before that, and once it was
   * received.
   */
  readonly missingMs: number | undefined;
  /** The last failure; undefined = the server has sent something since then. */
  readonly failure: string | undefined;
}

/** Receives what a source delivers. Calls are synchronous and cheap: they only record changes. */
export interface SourceSink {
  change(change: Change): Taken;
  /** The first complete list of this resource was delivered. Called once per resource. */
  synced(resource: Resource): void;
  problem(problem: SourceProblem): void;
  /** A list was read, or failed. */
  listed(attempt: ListAttempt): void;
}

export interface Source {
  /**
   * Delivers until `signal` aborts, and then resolves. Rejects only if it can never work (invalid
   * kubeconfig, directory missing at the start). Outages are reported as problems, and it
   * continues.
   */
  run(sink: SourceSink, signal: AbortSignal): Promise<void>;
  condition(resource: Resource): Condition;
  /**
   * `metadata.resourceVersion` of an object as last delivered; undefined if the source has none, or
   * has not delivered the object. `key` as in changes: `namespace/name`.
   */
  revision(resource: Resource, key: string): string | undefined;
  /** The URL of the API server; undefined if there is none, or before `run` has read it. */
  server(): string | undefined;
  /** Undefined before an API server has reported it. */
  serverVersion(): ServerVersion | undefined;
  readonly lookup: Lookup;
  /** Delivers again what the sink has left out. Absent: it delivers only what has room. */
  readAgain?(): void;
}

/**
 * The source of objects. Both sources (the Kubernetes API and a directory of manifests) deliver the
 * same changes, so that all else runs without a cluster.
 */
import type { Change, Resource } from '../state/change.ts';
import type { Lookup } from './lookup.ts';

/** Something wrong with input that does not stop the rest. */
export interface SourceProblem {
  /** The object or file: `Service default/web`, `services.yaml:12`, `endpointslices watch`. */
  readonly subject: string;
  /** Field path, where there is one. */
  readonly field: string | undefined;
  readonly reason: string;
}

/** How a list was read: as a stream of events (KEP-3157), or in pages. */
export type ListWay = 'streaming' | 'paged';

/** What is listed and watched. */
export type Watched = Resource | 'pods';

/** An attempt to list one resource. */
export interface ListAttempt {
  readonly resource: Watched;
  readonly way: ListWay;
  readonly result: 'complete' | 'failed';
  /** Why it failed. For a complete list: why the other way had failed before, if it had. */
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

/** The condition of one resource in the source. */
export interface Condition {
  /**
   * Milliseconds since its watch last brought anything, or since the first attempt. Undefined
   * before that, and while the resource is not available.
   */
  readonly silenceMs: number | undefined;
  /**
   * Milliseconds since the first list was asked for; undefined before that, and when it has come.
   */
  readonly missingMs: number | undefined;
  /** The last failure; undefined = none since the last success. */
  readonly failure: string | undefined;
}

/** Takes what a source delivers. Calls are synchronous and cheap: they only record changes. */
export interface SourceSink {
  change(change: Change): void;
  /** The first complete list of this resource has been delivered. Called once a resource. */
  synced(resource: Resource): void;
  problem(problem: SourceProblem): void;
  /** A list was read, or could not be. */
  listed(attempt: ListAttempt): void;
}

export interface Source {
  /**
   * Delivers until `signal` aborts, and then resolves. Rejects only when it can never work (bad
   * kubeconfig, directory missing at start). Outages are reported as problems, and it goes on.
   */
  run(sink: SourceSink, signal: AbortSignal): Promise<void>;
  condition(resource: Resource): Condition;
  /**
   * `metadata.resourceVersion` of an object as it was last delivered; undefined where the source has
   * none, or has not delivered the object. `key` as in changes: `namespace/name`.
   */
  revision(resource: Resource, key: string): string | undefined;
  /** The URL of the API server; undefined where there is none, or before `run` has read it. */
  server(): string | undefined;
  /** Undefined where no API server has said it. */
  serverVersion(): ServerVersion | undefined;
  readonly lookup: Lookup;
}

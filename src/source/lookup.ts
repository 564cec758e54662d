/** Objects that are not kept, and read from the source on demand. */

/** A pod, as far as its packets depend on it. */
export interface FoundPod {
  /** Addresses of each family, as text. */
  readonly addresses: readonly string[];
  /** Empty = it is not assigned to a node yet, or that is not known. */
  readonly nodeName: string;
}

/** Rejects with a LookupError, and when `signal` aborts. */
export interface Lookup {
  pod(namespace: string, name: string, signal: AbortSignal): Promise<FoundPod>;
  /**
   * Names of the pods that EndpointSlices of a Service name as endpoints (`targetRef`), by address
   * as `formatAddress` writes it.
   */
  podsOf(
    namespace: string,
    service: string,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, string>>;
}

/**
 * Why there is no answer. `permission`: who asks must not have it asked; `absence`: there is no such
 * object; `source`: the source cannot answer now.
 */
export class LookupError extends Error {
  override readonly name = 'LookupError';
  readonly fault: 'permission' | 'absence' | 'source';

  constructor(fault: LookupError['fault'], reason: string) {
    super(reason);
    this.fault = fault;
  }
}

/** What is not kept, and asked of the source when somebody wants to know. */

/** A pod, as far as its packets go. */
export interface FoundPod {
  /** Of each family, in text. */
  readonly addresses: readonly string[];
  /** Empty = it is on no node yet, or that is not known. */
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
  /** Keys (`namespace/name`) of the Services that a label selector chooses; '' = all namespaces. */
  servicesWith(
    selector: string,
    namespace: string,
    signal: AbortSignal,
  ): Promise<ReadonlySet<string>>;
}

/** Why something was not found: `asked` = because of the question, else for now. */
export class LookupError extends Error {
  override readonly name = 'LookupError';
  readonly fault: 'question' | 'absence' | 'source';

  constructor(fault: LookupError['fault'], reason: string) {
    super(reason);
    this.fault = fault;
  }
}

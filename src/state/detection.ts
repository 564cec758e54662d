/** What becomes of endpoints that do not answer, as a Service asks for it. */

/**
 * - `off`: nothing is counted;
 * - `observe`: attempts and answers of each endpoint are counted and shown;
 * - `eject`: an endpoint that answers nothing gets no new connections until it answers again.
 */
export const failureDetections = ['off', 'observe', 'eject'] as const;
export type FailureDetection = (typeof failureDetections)[number];

export interface Detection {
  /** Undefined: the configuration says. */
  readonly mode: FailureDetection | undefined;
  /** The node tries a connection to each endpoint once a second. */
  readonly probes: boolean;
}

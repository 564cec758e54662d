/** How many connections a Service accepts on this node, as its annotations say. */

/** The annotation of each limit, by the reason for which connections beyond it are refused. */
export const limitAnnotations = {
  max_connections: 'fairlead.io/max-connections',
  max_connections_per_client: 'fairlead.io/max-connections-per-client',
  new_connections_per_second: 'fairlead.io/new-connections-per-second',
  new_connections_per_second_per_client: 'fairlead.io/new-connections-per-second-per-client',
} as const;

export type LimitReason = keyof typeof limitAnnotations;
export const limitReasons = Object.keys(limitAnnotations) as readonly LimitReason[];

/** What limits connections, by the reason for a refusal: annotations, and settings. */
export const limitNames = {
  ...limitAnnotations,
  client_limit: 'settings connectionLimits.client…',
  namespace_limit: 'settings connectionLimits.namespace…',
} as const;

export type RefusedReason = keyof typeof limitNames;
export const refusedReasons = Object.keys(limitNames) as readonly RefusedReason[];

/** A client that was refused in the last two minutes. */
export interface Refused {
  readonly reason: RefusedReason;
  readonly client: string;
  readonly packets: number;
  /** `namespace/name`, as an EndpointSlice has it; undefined: not known. */
  readonly pod?: string | undefined;
}

/** Those that a Service asks for. */
export type Limits = Readonly<Partial<Record<LimitReason, number>>>;

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

/** A client that was refused in the last two minutes. */
export interface Refused {
  readonly reason: LimitReason;
  readonly client: string;
  readonly packets: number;
}

/** Those that a Service asks for. */
export type Limits = Readonly<Partial<Record<LimitReason, number>>>;

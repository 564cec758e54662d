/** Counts of traffic that a mode reads from the kernel. */
import type { Destination } from '../state/frontends-in-force.ts';
import { refusedReasons } from '../state/limits.ts';

/** Why a connection was refused. */
export const refusalReasons = [
  'no_endpoints',
  'no_local_endpoints',
  'source_ranges',
  'no_such_port',
  'no_such_service',
  ...refusedReasons,
] as const;
export type RefusalReason = (typeof refusalReasons)[number];

/** A number that the kernel keeps and that only grows as long as what it counts is there. */
export interface Count {
  /** Unique within the family. */
  readonly id: string;
  readonly count: number;
  readonly destination: Destination;
  readonly of: /** First packets of connections to a frontend, whatever became of them. */
    | { readonly kind: 'connections' }
    /** Those that were sent to an endpoint. `isFollowed`: all that it answers is counted, too. */
    | { readonly kind: 'endpoint'; readonly endpoint: string; readonly isFollowed?: boolean }
    /**
     * Those that an endpoint has accepted. With UDP, answers to clients that it has known for less
     * than two seconds, which may be several for each client.
     */
    | { readonly kind: 'answers'; readonly endpoint: string; readonly isFollowed: boolean }
    /** Those that an endpoint, or a router on the way to it, has refused. */
    | { readonly kind: 'resets'; readonly endpoint: string; readonly isFollowed: boolean }
    /** Packets that were refused. */
    | { readonly kind: 'refusals'; readonly reason: RefusalReason };
}

/** Takes a count. Returns the namespace whose it is; empty: it belongs to no Service. */
export type CountTaker = (count: Count) => string;

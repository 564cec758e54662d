/** Counts of traffic that a mode reads from the kernel. */

import type { Destination } from '../state/frontends-in-force.ts';
import { levelWithin } from '../state/level.ts';
import { inTurns, type Pause } from '../time/pacer.ts';

/** Why a connection was refused. */
export type RefusalReason =
  | 'no_endpoints'
  | 'no_local_endpoints'
  | 'source_ranges'
  | 'no_such_port'
  | 'no_such_service';

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

/**
 * The keys beyond the shares of their namespaces in `room`: each namespace keeps as many as any
 * other, or all that it has. `owners`: the namespace of each key.
 */
export async function beyondShares(
  owners: ReadonlyMap<string, string>,
  room: number,
  pause: Pause,
): Promise<readonly string[]> {
  const sizes = new Map<string, number>();
  await inTurns(owners.values(), pause, (owner) => sizes.set(owner, (sizes.get(owner) ?? 0) + 1));
  const share = Math.floor(levelWithin([...sizes.values()], room));
  const kept = new Map<string, number>();
  const beyond: string[] = [];
  await inTurns(owners, pause, ([key, owner]) => {
    const own = kept.get(owner) ?? 0;
    if (own < share) kept.set(owner, own + 1);
    else beyond.push(key);
  });
  return beyond;
}

/** What ends connections and UDP flows, or keeps them, where a Service asks for it. */
import { EndpointFinder } from '../net/endpoint-finder.ts';
import type { EndpointKey, EndpointList } from '../net/endpoint-list.ts';

/** What a Service asks for. */
export interface Endings {
  /**
   * How long connections stay after their endpoint has left the EndpointSlices; then they are
   * ended. Undefined: they are not ended.
   */
  readonly endAfterMs?: number;
  /** How old connections may get; then they are ended. Undefined: they are not. */
  readonly maxAgeMs?: number;
  /** UDP flows stay with an endpoint that terminates, as long as it serves. */
  readonly keepsFlows?: true;
}

/** The same, of one Service port. */
export interface PortEndings extends Endings {
  /**
   * Of a TCP port whose connections are ended: those to endpoints that have left this list. It
   * holds all that the EndpointSlices have, whatever their conditions, and those that left not long
   * ago.
   */
  readonly kept?: EndpointList;
}

/**
 * `on-removal`, in milliseconds. An endpoint that moves from one EndpointSlice to another may be in
 * none for a moment.
 */
export const removalMs = 1000;

/**
 * How old one connection gets, a tenth more or less than the Service says, so that connections of
 * the same time do not end at the same time. `random` is in [0, 1).
 */
export function ageLimitMs(maxAgeMs: number, random: number): number {
  return maxAgeMs * (0.9 + 0.2 * random);
}

interface HasEndings {
  readonly endings?: PortEndings | undefined;
}

/** The endpoints whose connections a change ends; undefined: of none. */
export function endedBy(
  previous: HasEndings | undefined,
  next: HasEndings | undefined,
): ReadonlySet<EndpointKey> | undefined {
  const [before, after] = [previous?.endings?.kept, next?.endings?.kept];
  if (before === undefined || after === undefined || before.equals(after)) return undefined;
  const lost = new Set(new EndpointFinder(after).missing(before).map((i) => before.key(i)));
  return lost.size === 0 ? undefined : lost;
}

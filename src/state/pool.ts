/**
 * Pools keep their order while endpoints come and go, so that a mode writes only the positions
 * that changed: losing an endpoint swaps the last one into the hole, replacing one changes one
 * position.
 */
import { EndpointFinder } from '../net/endpoint-finder.ts';
import { EndpointList, endpointBytes } from '../net/endpoint-list.ts';
import { sameForwarding } from './equal.ts';
import type { Forwarding } from './types.ts';

/**
 * The endpoints of `next`, ordered after `previous`: whatever `previous` holds at an index below
 * `next.length` and `next` has too stays there. All others fill the holes, from the lowest up, in
 * the order of `next`.
 *
 * The positions below `next.length` that change are as few as any order could have: as many as were
 * added when the list does not shrink, else as many as were removed below `next.length`. Returns
 * `previous` itself when nothing changes. `next` holds each endpoint once; one that stands twice in
 * `previous` (which only another program can have written) keeps its first index.
 */
export function keepOrder(previous: EndpointList, next: EndpointList): EndpointList {
  if (previous.equals(next)) return previous;
  if (previous.length === 0 || next.length === 0) return next;

  const finder = new EndpointFinder(next);
  const isPlaced = new Uint8Array(next.length);
  const holes: number[] = [];
  for (let i = 0; i < next.length; i += 1) {
    const at = i < previous.length ? finder.indexOf(previous, i) : -1;
    if (at < 0 || isPlaced[at] === 1) holes.push(i);
    else isPlaced[at] = 1;
  }
  if (holes.length === 0 && next.length === previous.length) return previous;
  return place(previous, next, holes, isPlaced);
}

/** `previous` cut or extended to the length of `next`, with what is not placed in the holes. */
function place(
  previous: EndpointList,
  next: EndpointList,
  holes: readonly number[],
  isPlaced: Uint8Array,
): EndpointList {
  const bytes = new Uint8Array(next.bytes.length);
  bytes.set(previous.bytes.subarray(0, bytes.length));
  const stride = endpointBytes[next.family];
  let filler = -1;
  for (const hole of holes) {
    filler = isPlaced.indexOf(0, filler + 1);
    bytes.set(next.packed(filler), hole * stride);
  }
  return new EndpointList(next.family, bytes);
}

/** `next` with its lists in the order of `previous`, shared with it where they are equal. */
export function withOrderOf(previous: Forwarding | undefined, next: Forwarding): Forwarding {
  if (previous === undefined) return next;
  const cluster = keepOrder(previous.cluster, next.cluster);
  const local = keepOrder(previous.local, next.local);
  // For these two any stable order will do, and sharing halves the memory.
  const sharing = (set: 'hairpin' | 'serving', pool: 'local' | 'cluster'): EndpointList => {
    const ordered = pool === 'local' ? local : cluster;
    // Usually they are one list, before and after.
    if (previous[set] === previous[pool] && next[set] === next[pool]) return ordered;
    const list = keepOrder(previous[set], next[set]);
    return ordered.equals(list) ? ordered : list;
  };
  return {
    ...next,
    cluster,
    local,
    hairpin: sharing('hairpin', 'local'),
    serving: sharing('serving', 'cluster'),
  };
}

/**
 * `next` in the order of `previous`: `previous` itself when they differ in nothing else, and `next`
 * itself when it has that order.
 */
export function inOrderOf(previous: Forwarding | undefined, next: Forwarding): Forwarding {
  if (previous === undefined || previous === next) return next;
  const ordered = withOrderOf(previous, next);
  if (sameForwarding(previous, ordered)) return previous;
  return sameForwarding(next, ordered) ? next : ordered;
}

/** Whether they are the same but for the order of their pools; undefined = there is none. */
export function isSame(a: Forwarding | undefined, b: Forwarding | undefined): boolean {
  if (a === b) return true;
  return a !== undefined && b !== undefined && inOrderOf(a, b) === a;
}

/** `next` with its pools in the order that `orderOf` gives, usually that of the kernel. */
export function withHeldOrder(
  next: Forwarding,
  orderOf: (pool: 'cluster' | 'local') => EndpointList,
): Forwarding {
  const [cluster, local] = [orderOf('cluster'), orderOf('local')];
  if (cluster === next.cluster && local === next.local) return next;
  return withOrderOf({ ...next, cluster, local, hairpin: local, serving: cluster }, next);
}

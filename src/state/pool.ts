/**
 * Pools keep their order as endpoints are added and removed, so that a mode writes only the
 * positions that changed: removing an endpoint moves the last one into its position, replacing one
 * changes one position.
 */
import { EndpointFinder } from '../net/endpoint-finder.ts';
import { type EndpointKey, EndpointList } from '../net/endpoint-list.ts';
import { sameValue } from '../net/equality.ts';
import { type Deal, slotsOf } from './deal.ts';
import { sameDeal, sameForwarding } from './equal.ts';
import type { Forwarding } from './types.ts';

/**
 * The endpoints of `next`, in the order of `previous`: an endpoint at an index of `previous` below
 * `next.length` that `next` has, too, stays there. All others fill the free positions in ascending
 * order, in the order of `next`.
 *
 * The number of changed positions below `next.length` is minimal: the number of added endpoints if
 * the list does not shrink, otherwise the number removed below `next.length`. Returns `previous`
 * itself if nothing changes. `next` has no duplicates; an endpoint that occurs twice in `previous`
 * (which only another program can have written) keeps its first index.
 */
export function keepOrder(previous: EndpointList, next: EndpointList): EndpointList {
  if (previous.equals(next)) return previous;
  if (previous.length === 0 || next.length === 0) return next;
  const { holes, fillers } = fewMoves(previous, next) ?? allMoves(previous, next);
  if (holes.length === 0 && next.length === previous.length) return previous;
  const runs: string[] = [];
  let from = 0;
  for (const [i, hole] of holes.entries()) {
    runs.push(previous.run(from, hole - from), next.run(fillers[i]!));
    from = hole + 1;
  }
  runs.push(previous.run(from, next.length - from));
  const ordered = shared(next, EndpointList.ofRuns(next.family, runs), sameValue);
  if (next.length >= fewMovesMin) sources.set(ordered, next);
  return ordered;
}

type Shared = EndpointList | Deal;

/**
 * By a list or deal that several ports of a Service share, what was made of it last: what is made
 * for one port is made for the others. Others are not in it, because an entry for each would cost
 * a fifth of a change.
 */
const made = new WeakMap<Shared, Shared | undefined>();

/** Says that several ports share it. */
export function share(one: Shared): void {
  if (!made.has(one)) made.set(one, undefined);
}

/** `next`, or what is equal and was made of `from` before. */
function shared<T extends Shared>(
  from: T,
  next: T,
  same: (a: T | undefined, b: T | undefined) => boolean,
): T {
  if (!made.has(from)) return next;
  const before = made.get(from) as T | undefined;
  if (before !== undefined && same(before, next)) return before;
  made.set(from, next);
  return next;
}

/** What it takes to get from one order to another. */
interface Moves {
  /** The free positions, ascending. */
  readonly holes: readonly number[];
  /** The indexes of what comes there, ascending. */
  readonly fillers: readonly number[];
}

function allMoves(previous: EndpointList, next: EndpointList): Moves {
  const finder = new EndpointFinder(next);
  const isPlaced = new Uint8Array(next.length);
  const holes: number[] = [];
  for (let i = 0; i < next.length; i += 1) {
    const at = i < previous.length ? finder.indexOf(previous, i) : -1;
    if (at < 0 || isPlaced[at] === 1) holes.push(i);
    else isPlaced[at] = 1;
  }
  let filler = -1;
  const fillers = holes.map(() => {
    filler = isPlaced.indexOf(0, filler + 1);
    return filler;
  });
  return { holes, fillers };
}

/** The lists, sorted as resolving sorts them, that were brought into the order of others. */
const sources = new WeakMap<EndpointList, EndpointList>();
/** Of shorter lists it is not remembered: to compare all is as fast. */
const fewMovesMin = 64;
/** Endpoints that come and go, with which it is faster than to compare all. */
const fewMovesMax = 32;

/**
 * The same for long lists of which few endpoints come and go: those are found by comparing sorted
 * lists, which have the rest in one order. Undefined: there are too many.
 */
function fewMoves(previous: EndpointList, next: EndpointList): Moves | undefined {
  if (next.length < fewMovesMin) return undefined;
  const source = sources.get(previous) ?? previous;
  const changes = sortedChanges(source, next, fewMovesMax);
  if (changes === undefined) return undefined;
  const come = new Set(changes.come.map((i) => next.key(i)));
  // It has moved: the lists are not in one order.
  if (changes.gone.some((i) => come.has(source.key(i)))) return undefined;
  const isAt = (list: EndpointList, of: EndpointList) => {
    const finder = new EndpointFinder(list);
    return (index: number): number => finder.indexOf(of, index);
  };
  const gone = new Set(changes.gone.map(isAt(previous, source)));
  const tail = Array.from(
    { length: Math.max(0, previous.length - next.length) },
    (_, i) => next.length + i,
  ).filter((i) => !gone.has(i));
  const holes = [...gone].filter((i) => i < next.length).sort((a, b) => a - b);
  for (let i = previous.length; i < next.length; i += 1) holes.push(i);
  const fillers = [...changes.come, ...tail.map(isAt(next, previous))].sort((a, b) => a - b);
  return holes.length === fillers.length ? { holes, fillers } : undefined;
}

/**
 * The indexes of endpoints that go and come between two lists in one order; undefined: those are
 * more than `most`, as in lists that have no order in common.
 */
function sortedChanges(before: EndpointList, after: EndpointList, most: number) {
  const gone: number[] = [];
  const come: number[] = [];
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    const run = runLength(before, i, after, j);
    i += run;
    j += run;
    const isOver = j === after.length;
    if (i < before.length && (isOver || before.run(i) < after.run(j))) gone.push(i++);
    else if (!isOver) come.push(j++);
    if (gone.length + come.length > most) return undefined;
  }
  return { gone, come };
}

/** How many endpoints are equal from there on. */
function runLength(before: EndpointList, i: number, after: EndpointList, j: number): number {
  const most = Math.min(before.length - i, after.length - j);
  let length = 0;
  let grows = true;
  for (let step = 1; step > 0 && length < most; ) {
    const count = Math.min(step, most - length);
    const isSame = before.run(i + length, count) === after.run(j + length, count);
    if (isSame) length += count;
    grows &&= isSame;
    step = grows ? 2 * step : step >> 1;
  }
  return length;
}

/**
 * As `keepOrder`, for the slots of a deal: an endpoint may stand at several, in both lists. Slots
 * that stay with an endpoint stay where they are.
 */
export function keepSlots(previous: EndpointList, next: EndpointList): EndpointList {
  if (previous.equals(next)) return previous;
  if (previous.length === 0 || next.length === 0) return next;
  /** The slots that each endpoint is still to get, as indexes of `next`, the last one first. */
  const due = new Map<EndpointKey, number[]>();
  for (let i = next.length - 1; i >= 0; i -= 1) {
    const key = next.key(i);
    const slots = due.get(key);
    if (slots === undefined) due.set(key, [i]);
    else slots.push(i);
  }
  const order = new Uint32Array(next.length);
  const holes: number[] = [];
  for (let i = 0; i < next.length; i += 1) {
    const from = i < previous.length ? due.get(previous.key(i))?.pop() : undefined;
    if (from === undefined) holes.push(i);
    else order[i] = from;
  }
  const rest = [...due.values()].flat().sort((a, b) => a - b);
  holes.forEach((hole, i) => {
    order[hole] = rest[i]!;
  });
  const kept = next.picked(order);
  return kept.equals(previous) ? previous : kept;
}

/** The position of a slot in a table of `maglev` is its meaning. */
function dealInOrder(previous: Forwarding, { deal }: Forwarding): Deal | undefined {
  if (deal === undefined || deal.balance === 'maglev') return deal;
  const ordered = (pool: 'cluster' | 'local') => keepSlots(slotsOf(previous, pool), deal[pool]);
  const cluster = ordered('cluster');
  const local = deal.local === deal.cluster ? cluster : ordered('local');
  return shared(deal, { ...deal, cluster, local }, sameDeal);
}

/** `next` with its lists in the order of `previous`, sharing lists that are equal. */
export function withOrderOf(previous: Forwarding | undefined, next: Forwarding): Forwarding {
  if (previous === undefined) return next;
  const cluster = keepOrder(previous.cluster, next.cluster);
  const local = keepOrder(previous.local, next.local);
  // For these two any stable order will do, and sharing halves the memory.
  const sharing = (set: 'hairpin' | 'serving', pool: 'local' | 'cluster'): EndpointList => {
    const ordered = pool === 'local' ? local : cluster;
    // Usually they are the same list, before and after.
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
    deal: dealInOrder(previous, next),
  };
}

/**
 * `next` in the order of `previous`: `previous` itself if they do not differ otherwise, and `next`
 * itself if it has that order.
 */
export function inOrderOf(previous: Forwarding | undefined, next: Forwarding): Forwarding {
  if (previous === undefined || previous === next) return next;
  const ordered = withOrderOf(previous, next);
  if (sameForwarding(previous, ordered)) return previous;
  return sameForwarding(next, ordered) ? next : ordered;
}

/** Whether they are equal except for the order of their pools; undefined = absent. */
export function isSame(a: Forwarding | undefined, b: Forwarding | undefined): boolean {
  if (a === b) return true;
  return b !== undefined && inOrderOf(a, b) === a;
}

/**
 * `next` with its pools, or the slots of its deal, in the order that `orderOf` gives, usually that
 * of the kernel.
 */
export function withKernelOrder(
  next: Forwarding,
  orderOf: (pool: 'cluster' | 'local') => EndpointList,
): Forwarding {
  const [cluster, local] = [orderOf('cluster'), orderOf('local')];
  const { deal } = next;
  if (deal !== undefined) {
    if (cluster === deal.cluster && local === deal.local) return next;
    return withOrderOf({ ...next, deal: { ...deal, cluster, local } }, next);
  }
  if (cluster === next.cluster && local === next.local) return next;
  return withOrderOf({ ...next, cluster, local, hairpin: local, serving: cluster }, next);
}

import type { EndpointKey, EndpointList } from '../../net/endpoint-list.ts';

export interface PoolDifference {
  readonly before: number;
  readonly after: number;
  readonly added: number;
  readonly removed: number;
  /** The first few: `10.0.0.1:8080`. */
  readonly addedTexts: readonly string[];
  readonly removedTexts: readonly string[];
}

/** So many endpoints are named. */
const namedMax = 4;

const none: readonly string[] = [];

/**
 * Undefined = there was, or is, nothing: then endpoints are counted only. Pools keep their order,
 * so that what differs is at few places, however long they are.
 */
export function poolDifference(
  before: EndpointList | undefined,
  after: EndpointList | undefined,
): PoolDifference {
  const counts = { before: before?.length ?? 0, after: after?.length ?? 0 };
  const unnamed = { addedTexts: none, removedTexts: none };
  if (before === undefined || after === undefined) {
    return { ...counts, added: counts.after, removed: counts.before, ...unnamed };
  }
  if (before.equals(after)) return { ...counts, added: 0, removed: 0, ...unnamed };
  const gone = new Map<EndpointKey, number>();
  const come = new Map<EndpointKey, number>();
  for (let i = 0; i < Math.max(before.length, after.length); i += 1) {
    const [was, is] = [keyAt(before, i), keyAt(after, i)];
    if (was === is) continue;
    if (was !== undefined && !come.delete(was)) gone.set(was, i);
    if (is !== undefined && !gone.delete(is)) come.set(is, i);
  }
  return {
    ...counts,
    added: come.size,
    removed: gone.size,
    addedTexts: named(after, come),
    removedTexts: named(before, gone),
  };
}

function keyAt(list: EndpointList, index: number): EndpointKey | undefined {
  return index < list.length ? list.key(index) : undefined;
}

function named(list: EndpointList, at: ReadonlyMap<EndpointKey, number>): string[] {
  return [...at.values()].slice(0, namedMax).map((index) => list.text(index));
}

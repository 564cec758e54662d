import type { EndpointKey, EndpointList } from '../../net/endpoint-list.ts';

interface PoolDifference {
  readonly before: number;
  readonly after: number;
  readonly added: number;
  readonly removed: number;
  /** The first few added endpoints: `10.0.0.1:8080`. */
  readonly addedTexts: readonly string[];
  readonly removedTexts: readonly string[];
}

/** The most endpoints that an answer names. */
const namedMax = 4;

const none: readonly string[] = [];

/**
 * Undefined = no pool before or after; then endpoints are only counted. Pools keep their order, so
 * long pools, too, differ at few indexes.
 */
export function poolDifference(
  before: EndpointList | undefined,
  after: EndpointList | undefined,
): PoolDifference {
  if (before === undefined || after === undefined || before.equals(after)) {
    const [had, has] = [before?.length ?? 0, after?.length ?? 0];
    const [added, removed] = before && after ? [0, 0] : [has, had];
    return { before: had, after: has, added, removed, addedTexts: none, removedTexts: none };
  }
  const gone = new Map<EndpointKey, number>();
  const come = new Map<EndpointKey, number>();
  const shorter = Math.min(before.length, after.length);
  for (let i = 0; i < Math.max(before.length, after.length); i += 1) {
    if (i < shorter && before.sameAt(i, after, i)) continue;
    const [was, is] = [keyAt(before, i), keyAt(after, i)];
    if (was !== undefined && !come.delete(was)) gone.set(was, i);
    if (is !== undefined && !gone.delete(is)) come.set(is, i);
  }
  return {
    before: before.length,
    after: after.length,
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

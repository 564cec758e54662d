/** Which of many have room where there is not enough for all: no tenant takes that of others. */
import { addCount } from '../net/counts.ts';
import { levelWithin } from '../state/level.ts';
import { inTurns, type Pause } from '../time/pacer.ts';

/** Both in the order of the list that was divided. */
interface Shares<T> {
  readonly within: readonly T[];
  readonly beyond: readonly T[];
}

/**
 * As many of the list are within as there is room for: a namespace with many gets as much as the
 * others that have as many, and its first ones.
 */
export async function fairShares<T>(
  list: readonly T[],
  namespaceOf: (one: T) => string,
  room: number,
  pause: Pause,
): Promise<Shares<T>> {
  if (list.length <= room) return { within: list, beyond: [] };
  const sizes = new Map<string, number>();
  const namespaces: string[] = [];
  await inTurns(list, pause, (one) => {
    const namespace = namespaceOf(one);
    namespaces.push(namespace);
    addCount(sizes, namespace);
  });
  const share = Math.floor(levelWithin([...sizes.values()], room));
  // What cannot be divided goes to those that come first.
  let further = room;
  for (const size of sizes.values()) further -= Math.min(size, share);
  const taken = new Map<string, number>();
  const [within, beyond]: [T[], T[]] = [[], []];
  await inTurns(namespaces.keys(), pause, (i) => {
    const namespace = namespaces[i]!;
    const before = taken.get(namespace) ?? 0;
    const isFurther = before === share && further > 0;
    if (isFurther) further -= 1;
    if (before < share || isFurther) {
      taken.set(namespace, before + 1);
      within.push(list[i]!);
    } else beyond.push(list[i]!);
  });
  return { within, beyond };
}

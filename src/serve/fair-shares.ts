/** Which of many have room where there is not enough for all: no tenant takes that of others. */
import { levelWithin } from '../state/level.ts';
import { inTurns, type Pause } from '../time/pacer.ts';

interface Owned {
  readonly namespace: string;
}

/**
 * As many of the list as there is room for, in its order: a namespace with many gets as much as the
 * others that have as many, and its first ones.
 */
export async function fairShares<T extends Owned>(
  list: readonly T[],
  room: number,
  pause: Pause,
): Promise<readonly T[]> {
  if (list.length <= room) return list;
  const sizes = new Map<string, number>();
  await inTurns(list, pause, ({ namespace }) => {
    sizes.set(namespace, (sizes.get(namespace) ?? 0) + 1);
  });
  const share = Math.floor(levelWithin([...sizes.values()], room));
  // What cannot be divided goes to those that come first.
  let further = room;
  for (const size of sizes.values()) further -= Math.min(size, share);
  const taken = new Map<string, number>();
  const shown: T[] = [];
  await inTurns(list, pause, (one) => {
    const before = taken.get(one.namespace) ?? 0;
    const isFurther = before === share;
    if (before > share || (isFurther && further === 0)) return;
    if (isFurther) further -= 1;
    taken.set(one.namespace, before + 1);
    shown.push(one);
  });
  return shown;
}

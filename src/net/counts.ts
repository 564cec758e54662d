/** How often each key is there; no key has 0. */
export function addCount<K>(counts: Map<K, number>, key: K, change = 1): void {
  const count = (counts.get(key) ?? 0) + change;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}

/** The level at which sizes that are cut to it add up to `total`; infinite if they do anyway. */
export function levelWithin(sizes: readonly number[], total: number): number {
  const sorted = sizes.toSorted((a, b) => a - b);
  let left = total;
  for (let i = 0; i < sorted.length; i += 1) {
    const level = left / (sorted.length - i);
    if (sorted[i]! > level) return level;
    left -= sorted[i]!;
  }
  return Number.POSITIVE_INFINITY;
}

/**
 * Whether two texts differ in `most` characters side by side at most: a letter that is missing,
 * doubled, wrong or exchanged with the next one. `at` gives the characters of the first text.
 */
export function isNear(
  length: number,
  at: (index: number) => number,
  text: string,
  most: number,
): boolean {
  const shorter = Math.min(length, text.length);
  let same = 0;
  while (same < shorter && at(same) === text.charCodeAt(same)) same += 1;
  let end = 0;
  while (end < shorter - same && at(length - 1 - end) === text.charCodeAt(text.length - 1 - end)) {
    end += 1;
  }
  return Math.max(length, text.length) - same - end <= most;
}

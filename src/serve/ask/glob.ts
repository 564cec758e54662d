/**
 * Whether a name matches a pattern, in which `*` matches any characters and `?` one. The time is at
 * most proportional to the product of both lengths.
 */
export function matchesGlob(name: string, pattern: string): boolean {
  let [at, mark] = [0, 0];
  let star = -1;
  for (let i = 0; i < name.length; ) {
    const want = pattern[at];
    if (want === '*') {
      star = at;
      mark = i;
      at += 1;
    } else if (want === '?' || want === name[i]) {
      i += 1;
      at += 1;
    } else if (star >= 0) {
      // Try again with the last star matching one more character.
      mark += 1;
      i = mark;
      at = star + 1;
    } else return false;
  }
  return [...pattern.slice(at)].every((rest) => rest === '*');
}

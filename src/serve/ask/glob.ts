/**
 * Whether a name matches a pattern, in which `*` stands for any characters and `?` for one. The
 * time grows at most with the product of both lengths, whatever the pattern.
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
      // Try again with the last star standing for one more character.
      mark += 1;
      i = mark;
      at = star + 1;
    } else return false;
  }
  return [...pattern.slice(at)].every((rest) => rest === '*');
}

/**
 * Whether a name is as the pattern says: `*` stands for any characters, `?` for one. Takes time that
 * grows with the length of both, whatever the pattern.
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
      // The last star stands for one character more.
      mark += 1;
      i = mark;
      at = star + 1;
    } else return false;
  }
  return [...pattern.slice(at)].every((rest) => rest === '*');
}

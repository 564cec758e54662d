/** The known word that a misspelt one most likely means; undefined when none is close. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  let best: { readonly candidate: string; readonly edits: number } | undefined;
  for (const candidate of known) {
    const edits = closeness(word, candidate);
    if (edits !== undefined && edits < (best?.edits ?? Infinity)) best = { candidate, edits };
  }
  return best?.candidate;
}

/** How many letters differ, if so few that one word may be meant for the other; else undefined. */
export function closeness(word: string, candidate: string): number | undefined {
  const limit = Math.min(3, Math.floor(word.length / 3));
  if (Math.abs(candidate.length - word.length) > limit) return undefined;
  const edits = distance(word.toLowerCase(), candidate.toLowerCase());
  return edits <= limit ? edits : undefined;
}

/** Levenshtein's edit distance; two neighbours that have changed places are one edit. */
function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  let before: readonly number[] = [];
  for (let i = 1; i <= from.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const swap = row[j - 1]! + (from[i - 1] === to[j - 1] ? 0 : 1);
      const isTurned = from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      const turn = isTurned ? before[j - 2]! + 1 : Infinity;
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, swap, turn));
    }
    before = row;
    row = next;
  }
  return row[to.length]!;
}

/** The known word that a misspelt one most likely means; undefined when none is close. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const limit = Math.min(3, Math.floor(word.length / 3));
  const best = known
    .filter((candidate) => Math.abs(candidate.length - word.length) <= limit)
    .map((candidate) => ({
      candidate,
      edits: distance(word.toLowerCase(), candidate.toLowerCase()),
    }))
    .sort((a, b) => a.edits - b.edits)[0];
  return best !== undefined && best.edits <= limit ? best.candidate : undefined;
}

/** Levenshtein's edit distance. */
function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const swap = row[j - 1]! + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, swap));
    }
    row = next;
  }
  return row[to.length]!;
}

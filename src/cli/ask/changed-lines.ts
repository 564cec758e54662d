/** The lines in which a text differs from the previous one, for `--watch`. */

/**
 * Each line that was removed and each that was added, after `time`: `2026-01-01T00:00:02.000Z +
 * Problem:  IPv4 is not up to date`. Wider columns are not a change. Empty if nothing changed.
 */
export function changedLines(
  before: readonly string[],
  now: readonly string[],
  time: string,
): string {
  const [old, current] = [before.map(normal), now.map(normal)];
  return [
    ...without(old, current).map((line) => `${time} - ${line}\n`),
    ...without(current, old).map((line) => `${time} + ${line}\n`),
  ].join('');
}

function normal(line: string): string {
  return line.replace(/ {2,}/g, '  ').trim();
}

/** The lines that `from` has more often than `others`, as often as the difference. */
function without(from: readonly string[], others: readonly string[]): string[] {
  const left = new Map<string, number>();
  for (const line of others) left.set(line, (left.get(line) ?? 0) + 1);
  return from.filter((line) => {
    const count = left.get(line) ?? 0;
    left.set(line, count - 1);
    return count <= 0 && line !== '';
  });
}

/** Golden files that show only what is there beyond the fixed objects. */
import { expect } from 'vitest';

/**
 * The text of the objects that are not, or are others, among the fixed ones: of a chain all its
 * rules, since order matters. `keyOf` names the object of a line.
 */
export function beyond(fixed: string, text: string, keyOf: (line: string) => string): string {
  const [known, now] = [objectsIn(fixed, keyOf), objectsIn(text, keyOf)];
  expect([...known.keys()].filter((key) => !now.has(key))).toEqual([]);
  return [...now].map(([key, lines]) => (known.get(key) === lines ? '' : lines)).join('');
}

function objectsIn(text: string, keyOf: (line: string) => string): Map<string, string> {
  const found = new Map<string, string>();
  for (const line of text.trimEnd().split('\n')) {
    const key = keyOf(line);
    found.set(key, `${found.get(key) ?? ''}${line}\n`);
  }
  return found;
}

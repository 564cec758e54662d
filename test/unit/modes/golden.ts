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

/** A text of IPv6 as it is for IPv4, where addresses and blocks are those of `at` and `block`. */
export function asIPv4(text: string): string {
  return text
    .replaceAll(/\bip6\b/g, 'ip')
    .replaceAll('ipv6_addr', 'ipv4_addr')
    .replaceAll(/\[?fd00::(\d+):(\d+):(\d+):(\d+)\]?/g, '$1.$2.$3.$4')
    .replaceAll(/\/(\d{2,3})\b/g, (_, bits) => `/${(Number(bits) - 64) / 2}`)
    .replaceAll('::1/32', '127.0.0.0/8');
}

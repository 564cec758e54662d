/** Equality of records, from a table of their fields that the compiler keeps complete. */
import { type List, sameList } from './list.ts';

type Same<T> = (a: T, b: T) => boolean;

/**
 * For each field how its values are compared: `is` by `===`. `ignored` fields follow from others,
 * or mean nothing for whoever compares.
 */
type Fields<T> = { readonly [K in keyof T]-?: 'is' | 'ignored' | Same<T[K]> };

/**
 * Compares all fields of two records. Undefined is equal only to undefined. The comparison is
 * compiled: V8 has no inline caches for a loop over names, which would take ten times as long.
 */
export function equality<T extends object>(fields: Fields<T>): Same<T | undefined> {
  const names = (Object.keys(fields) as (keyof T & string)[]).filter(
    (name) => fields[name] !== 'ignored',
  );
  const terms = names.map((name) =>
    fields[name] === 'is' ? `a.${name} === b.${name}` : `fields.${name}(a.${name}, b.${name})`,
  );
  const body = `return (a, b) => a === b || (!!a && !!b && ${terms.join(' && ')})`;
  return new Function('fields', body)(fields) as Same<T | undefined>;
}

/** Compares lists, in which the order matters. Undefined is equal only to undefined. */
export function listEquality<T>(same: Same<T>): Same<List<T> | undefined> {
  return (a, b) => a === b || (a !== undefined && b !== undefined && sameList(a, b, same));
}

/** Compares values that can do it themselves. Undefined is equal only to undefined. */
export function sameValue<T extends { equals(other: T): boolean }>(
  a: T | undefined,
  b: T | undefined,
): boolean {
  return a === b || (a !== undefined && b !== undefined && a.equals(b));
}

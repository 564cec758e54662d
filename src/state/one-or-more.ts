/**
 * A list as it is kept for each of tens of thousands of Services, most of which have one port and
 * one slice: a single item is kept without an array, which would take 56 bytes. Items are never
 * arrays themselves.
 */
export type OneOrMore<T> = T | readonly T[];

/** The form in which a list is kept. */
export function kept<T>(list: readonly T[]): OneOrMore<T> {
  return list.length === 1 ? list[0]! : list;
}

/** The list that was kept; a new array if it has one item. */
export function listOf<T>(one: OneOrMore<T>): readonly T[] {
  return isList(one) ? one : [one];
}

/** Whether the list that was kept has no item. */
export function isNone<T>(one: OneOrMore<T>): boolean {
  return isList(one) && one.length === 0;
}

function isList<T>(one: OneOrMore<T>): one is readonly T[] {
  return Array.isArray(one);
}

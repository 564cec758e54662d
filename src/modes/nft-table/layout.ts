import { NFPROTO } from '../../kernel/nft/constants.ts';
import type { SetDefinition } from '../../kernel/nft/sets.ts';
import type { Family } from '../../net/address.ts';

/** The table of one mode for one family. */
export interface TableLayout<Name extends string = string> {
  readonly family: Family;
  readonly table: string;
  readonly comment: string;
  /** The sets and maps that are always there. */
  readonly sets: Readonly<Record<Name, SetDefinition>>;
}

/** The definitions of sets by their names. */
export function byName<const All extends readonly SetDefinition[]>(...definitions: All) {
  const entries = definitions.map((definition) => [definition.name, definition]);
  return Object.fromEntries(entries) as { readonly [Name in All[number]['name']]: SetDefinition };
}

/** Those that count (docs/decisions/0018-counted-elements.md) only if traffic is counted. */
export function setsOf<Name extends string>(
  definitions: Readonly<Record<Name, SetDefinition>>,
  countsTraffic: boolean,
): Readonly<Record<Name, SetDefinition>> {
  const entries = Object.entries<SetDefinition>(definitions);
  const kept = entries.filter(([, { isCounted = false }]) => countsTraffic || !isCounted);
  return Object.fromEntries(kept) as Record<Name, SetDefinition>;
}

/** What names the table in ops and requests. */
export function inTable({ family, table }: Pick<TableLayout, 'family' | 'table'>) {
  return { family: NFPROTO[family], table };
}

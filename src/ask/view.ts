/** What an answer looks like to people, apart from whether a terminal or a browser shows it. */

/** A text with something about it. */
export interface Marked {
  readonly text: string;
  /** Whether it is bad or good news. */
  readonly tone?: 'bad' | 'good';
  /** What it names: the browser has a page of it. */
  readonly names?: { readonly namespace: string; readonly service?: string };
}

/** A time, RFC 3339: as it is, or where that is shorter as an age. */
export interface Moment {
  readonly time: string;
  readonly isAge?: true;
}

type Part = string | number | Marked | Moment;
/** Several parts stand side by side; undefined is empty. */
export type Cell = Part | readonly Part[] | undefined;

export interface Column {
  readonly name: string;
  /** `number`: aligned right. `later`: hidden on a narrow screen. `wide`: asked for with -o wide. */
  readonly kind?: 'number' | 'later' | 'wide';
}

export interface Table {
  readonly title: string;
  readonly columns: readonly Column[];
  /** The column that names the row; default: the first. */
  readonly headAt?: number;
  readonly rows: readonly (readonly Cell[])[];
  /** What else there is: `and 3 more`. */
  readonly rest?: string | undefined;
}

/** A name, and what it is. */
export type Fact = readonly [string, Cell];

export interface Step {
  readonly text: string;
  readonly object?: string | undefined;
}

export type Block =
  | { readonly facts: readonly Fact[] }
  | { readonly table: Table }
  | { readonly list: readonly string[] }
  /** What happens in order, each with the object in the kernel that does it. */
  | { readonly steps: readonly Step[] }
  /** As a tool prints it. */
  | { readonly title: string; readonly code: readonly string[] }
  | { readonly title: string; readonly text: string; readonly blocks: readonly Block[] }
  | { readonly text: string };

export function bad(text: string): Marked {
  return { text, tone: 'bad' };
}

/** No block, where there are no rows. */
export function tableIf(table: Table): Block[] {
  return table.rows.length === 0 ? [] : [{ table }];
}

/** `and 3 more`, if there are some. */
export function andMore(count: number, what = ''): string | undefined {
  return count > 0 ? `and ${count} more${what}` : undefined;
}

/** The view of an answer for people, for a terminal as well as for a browser. */

/** A text with attributes. */
export interface Marked {
  readonly text: string;
  /** Whether it is bad or good news. */
  readonly tone?: 'bad' | 'good';
  /** The object that it names: the browser links to its page. */
  readonly names?: { readonly namespace: string; readonly service?: string };
}

/** A time, RFC 3339, shown as it is. */
export interface Instant {
  readonly time: string;
  readonly isAge?: never;
}

/** A time, RFC 3339, shown as how long ago it was where space is limited. */
export interface Age {
  readonly time: string;
  readonly isAge: true;
}

type Part = string | number | Marked | Instant | Age;
/** Several parts are shown side by side; undefined is empty. */
export type Cell = Part | readonly Part[] | undefined;

export interface Column {
  readonly name: string;
  /**
   * `number`: aligned right. `wide`: in a terminal with -o wide only, and in a browser if a cell is
   * filled. `terminal`: as `wide`, but never in a browser.
   */
  readonly kind?: 'number' | 'wide' | 'terminal';
}

export interface Table {
  readonly title: string;
  readonly columns: readonly Column[];
  /** The column that names the row; default: the first. */
  readonly headAt?: number;
  readonly rows: readonly (readonly Cell[])[];
  /** A note below: `and 3 more`. */
  readonly rest?: string | undefined;
}

/** A name and its value. */
export type Fact = readonly [string, Cell];

export interface Step {
  readonly text: string;
  readonly object?: string | undefined;
}

export type Block =
  | { readonly facts: readonly Fact[] }
  | { readonly table: Table }
  | { readonly list: readonly string[] }
  /** Steps in their order, each with the kernel object that performs it. */
  | { readonly steps: readonly Step[] }
  /** Preformatted output of a tool. */
  | { readonly title: string; readonly code: readonly string[] }
  | { readonly title: string; readonly text: string; readonly blocks: readonly Block[] }
  | { readonly text: string };

/** What kubectl prints where there is nothing. */
export const none = '<none>';

export function bad(text: string): Marked {
  return { text, tone: 'bad' };
}

/** No block if there are no rows. */
export function tableIf(table: Table): Block[] {
  return table.rows.length === 0 ? [] : [{ table }];
}

/** `and 3 more`, if the number is not 0. */
export function andMore(count: number, what = ''): string | undefined {
  return count > 0 ? `and ${count} more${what}` : undefined;
}

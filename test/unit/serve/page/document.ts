/** A page as a browser that runs no scripts reads it. */
import { type DefaultTreeAdapterTypes, parse } from 'parse5';

type Node = DefaultTreeAdapterTypes.ChildNode;
export type Element = DefaultTreeAdapterTypes.Element;

export class Document {
  readonly elements: readonly Element[];
  /** What a parser of the standard finds wrong. */
  readonly errors: readonly string[];

  constructor(text: string) {
    const errors: string[] = [];
    const tree = parse(text, {
      scriptingEnabled: false,
      onParseError: ({ code, startLine }) => errors.push(`${startLine}: ${code}`),
    });
    this.elements = tree.childNodes.flatMap(within);
    this.errors = errors;
  }

  all(...tags: readonly string[]): Element[] {
    return this.elements.filter(({ tagName }) => tags.includes(tagName));
  }

  /** Texts of all elements of these kinds. */
  texts(...tags: readonly string[]): string[] {
    return this.all(...tags).map(textOf);
  }

  /** Rows of the table with this label, by the names of their columns. */
  rows(label: string): Record<string, string>[] {
    const table = this.all('table').find((one) => attribute(one, 'aria-label') === label);
    if (table === undefined) return [];
    const [head, ...rows] = within(table).filter(({ tagName }) => tagName === 'tr');
    const names = cellsOf(head!);
    return rows.map((row) =>
      Object.fromEntries(cellsOf(row).map((cell, i) => [names[i]!, cell] as const)),
    );
  }
}

function cellsOf(row: Element): string[] {
  return within(row)
    .filter(({ tagName }) => tagName === 'th' || tagName === 'td')
    .map(textOf);
}

/** An element and all that is in it. */
function within(node: Node): Element[] {
  if (!('tagName' in node)) return [];
  return [node, ...node.childNodes.flatMap(within)];
}

export function textOf(node: Node): string {
  if ('value' in node) return node.value;
  const parts = 'childNodes' in node ? node.childNodes.map(textOf) : [];
  return parts.join('').replace(/\s+/g, ' ').trim();
}

export function attribute(element: Element, name: string): string | undefined {
  return element.attrs.find((one) => one.name === name)?.value;
}

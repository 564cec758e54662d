import { type Document, visit } from 'yaml';

/** The parser looks at all nodes for each alias: this many times takes half a second. */
const visitsMax = 2 ** 21;

/** Why the aliases of the document would take long to follow; undefined: they do not. */
export function excessOfAliases(document: Document): string | undefined {
  let [aliases, nodes] = [0, 0];
  visit(document, {
    Node: () => {
      nodes += 1;
    },
    Alias: () => {
      nodes += 1;
      aliases += 1;
    },
  });
  if (aliases * nodes <= visitsMax) return undefined;
  return `has ${aliases} aliases, too many for its ${nodes} nodes`;
}

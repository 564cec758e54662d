/** How texts of Kubernetes are read as YAML, whoever reads them. */
import { type Document, type ScalarTag, type Tags, visit } from 'yaml';

/** Numbers in base 60, dates and the like are strings in the parser of Kubernetes, too. */
function isSupportedTag(tag: Tags[number]): boolean {
  if (typeof tag === 'string') return true;
  return tag.format !== 'TIME' && /:(?:map|seq|str|null|bool|int|float)$/.test(tag.tag);
}

/** Other notations that Go's strconv reads. */
const octal: ScalarTag = {
  tag: 'tag:yaml.org,2002:int',
  default: true,
  test: /^0o[0-7_]+$/,
  resolve: (text) => Number(text.replaceAll('_', '')),
};

/** YAML 1.1 as Go's library reads it: `0120` is 80, `yes` is true, and a key may occur twice. */
export const yamlOptions = {
  schema: 'yaml-1.1',
  customTags: (tags: Tags) => [...tags.filter(isSupportedTag), octal],
  uniqueKeys: false,
  prettyErrors: false,
  // Else it writes warnings to standard error.
  logLevel: 'silent',
} as const;

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

import { expect, it } from 'vitest';
import { parseDocument } from 'yaml';
import { excessOfAliases } from '../../../src/net/yaml.ts';

/** The document itself is a list, and as many scalars and aliases. */
const documentOf = (scalars: number, aliases: number) =>
  parseDocument(`- &s 1\n${'- 2\n'.repeat(scalars - 1)}${'- *s\n'.repeat(aliases)}`);

it('a document may have two million nodes for each alias, or as many aliases', () => {
  expect(excessOfAliases(documentOf(1023, 1024))).toBeUndefined();
  expect(excessOfAliases(documentOf(1024, 1024))).toBe(
    'has 1024 aliases, too many for its 2049 nodes',
  );
});

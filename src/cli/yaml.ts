import { Document, visit } from 'yaml';
import { isPrintable } from '../serve/printable.ts';

/**
 * As YAML in printable characters that mean the same to every reader: strings with others are in
 * double quotes, which know escapes.
 */
export function toYAML(value: unknown): string {
  const document = new Document(value, { aliasDuplicateObjects: false });
  visit(document, {
    Scalar: (_, node) => {
      if (typeof node.value !== 'string' || isPrintable(node.value)) return;
      node.value = node.value.toWellFormed();
      node.type = 'QUOTE_DOUBLE';
    },
  });
  const text = document.toString({ lineWidth: 0 });
  // Outside the Basic Multilingual Plane, YAML has no pairs of escapes.
  return text.replace(/[\u{10000}-\u{10ffff}]/gu, (character) => {
    if (isPrintable(character)) return character;
    return `\\U${character.codePointAt(0)!.toString(16).padStart(8, '0')}`;
  });
}

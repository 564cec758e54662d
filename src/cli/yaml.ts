/** Writes answers as YAML. */
import { isPrintable } from '../serve/printable.ts';

/** Strings that need no quotes: every version of YAML reads them as strings. */
const plain = /^[A-Za-z/][\w./-]*(?: [\w./()-]+)*$/;
const reserved = /^(?:true|false|null|yes|no|on|off|y|n)$/i;

/**
 * YAML in printable characters that every reader understands in the same way: strings with other
 * characters, or that could be read as other types, are in double quotes with escapes. `undefined`
 * is left out.
 */
export function toYAML(value: unknown): string {
  const text = blockOf(value, '');
  return text.startsWith('\n') ? text.slice(1) : `${text.trimStart()}\n`;
}

/** After `key:` or `-`: a space and a scalar, or lines that begin with `indent`. */
function blockOf(value: unknown, indent: string): string {
  if (Array.isArray(value)) {
    if (value.length === 0) return ' []';
    return `\n${value.map((item) => `${indent}-${itemOf(item, indent)}\n`).join('')}`;
  }
  if (typeof value !== 'object' || value === null) return ` ${scalar(value)}`;
  const entries = Object.entries(value).filter(([, field]) => field !== undefined);
  if (entries.length === 0) return ' {}';
  const lines = entries.map(([name, field]) => {
    const inner = Array.isArray(field) ? indent : `${indent}  `;
    return `${indent}${scalar(name)}:${blockOf(field, inner)}`;
  });
  return `\n${lines.map((line) => (line.endsWith('\n') ? line : `${line}\n`)).join('')}`;
}

/** The first line of an object follows its hyphen. */
function itemOf(item: unknown, indent: string): string {
  const inner = `${indent}  `;
  const text = blockOf(item, inner);
  return (text.startsWith('\n') ? ` ${text.slice(1 + inner.length)}` : text).trimEnd();
}

function scalar(value: unknown): string {
  if (typeof value !== 'string') return JSON.stringify(value);
  if (plain.test(value) && !reserved.test(value)) return value;
  // YAML has no surrogate pairs: escapes outside the Basic Multilingual Plane have 8 digits.
  return JSON.stringify(value.toWellFormed()).replace(/[^\x20-\x7e]/gu, (character) => {
    if (isPrintable(character)) return character;
    const code = character.codePointAt(0)!.toString(16);
    return code.length > 4 ? `\\U${code.padStart(8, '0')}` : `\\u${code.padStart(4, '0')}`;
  });
}

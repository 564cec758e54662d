/** `-o`: the format in which a command prints its result. */
import { UsageError } from './errors.ts';

const templatePrefix = 'jsonpath=';

/** Writes a value; `text` is called for the formats for people. */
export type Writer = (value: unknown, text: () => string) => string;

/** The writer for a value of -o. Throws a UsageError if a template is invalid. */
export function writerOf(output: string | undefined): Writer {
  if (output === 'json') return (value) => `${JSON.stringify(value, null, 2)}\n`;
  if (!output?.startsWith(templatePrefix)) return (_, text) => text();
  return jsonPath(output.slice(templatePrefix.length));
}

/** Whether `output` is a format for people. */
export function isForPeople(output: string | undefined): boolean {
  return output === undefined || output === 'text' || output === 'wide' || output === 'name';
}

/** The values to which a path leads from one value. */
type Path = (value: unknown) => readonly unknown[];
/** Prints a part of the template. `value` is the root of the paths in it. */
type Part = (value: unknown) => string;

/**
 * Reads `{.items[*].name}`: fields, `[0]`, `[-1]`, `[*]`, `['name']`, `[?(@.state=="waiting")]`,
 * `{range .items[*]}…{end}` and `{"\n"}`; the rest is printed unchanged. Several values are
 * separated by spaces, objects are printed as JSON, and missing values as nothing. Throws a
 * UsageError.
 */
function jsonPath(template: string): Part {
  const pieces = template.match(/\{(?:"(?:[^"\\]|\\.)*"|[^{}"])*\}|[^{]+|\{.*/gs) ?? [];
  const { at, part } = readParts(pieces, 0);
  if (at < pieces.length) throw wrong('{end} without {range}');
  return part;
}

function readParts(pieces: readonly string[], from: number): { part: Part; at: number } {
  const parts: Part[] = [];
  let at = from;
  for (; at < pieces.length; at += 1) {
    const piece = pieces[at]!;
    const inside = /^\{(.+)\}$/s.exec(piece)?.[1]?.trim();
    if (piece.startsWith('{') && inside === undefined) throw wrong(`${piece} has no end`);
    if (inside === undefined) parts.push(() => piece);
    else if (inside === 'end') break;
    else if (inside.startsWith('range ')) {
      const path = readPath(inside.slice('range '.length).trim());
      const inner = readParts(pieces, at + 1);
      if (pieces[inner.at] === undefined) throw wrong('{range} without {end}');
      parts.push((value) => path(value).map(inner.part).join(''));
      at = inner.at;
    } else parts.push(readExpression(inside));
  }
  return { part: (value) => parts.map((part) => part(value)).join(''), at };
}

function readExpression(text: string): Part {
  if (/^".*"$/s.test(text)) {
    const literal = readLiteral(text);
    return () => String(literal);
  }
  const path = readPath(text);
  return (value) => path(value).map(shown).join(' ');
}

function shown(value: unknown): string {
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

const step =
  /\.?(?:([\w-]+)|\[\s*(?:'([^']*)'|"([^"]*)"|(\*)|(-?\d+)|\?\(\s*@(.*?)\s*(?:(==|!=)\s*("[^"]*"|'[^']*'|[^()\s]+)\s*)?\))\s*\])|\.\*/y;

function readPath(text: string): Path {
  const whole = text.replace(/^[$@]/, '');
  const steps: Path[] = [];
  step.lastIndex = 0;
  while (step.lastIndex < whole.length && whole !== '.') {
    const [found, name, single, double, all, index, inner, operator, literal] =
      step.exec(whole) ?? [];
    if (found === undefined) throw wrong(`{${text}} is not understood`);
    const key = name ?? single ?? double;
    if (key !== undefined) steps.push((value) => fieldOf(value, key));
    else if (index !== undefined) steps.push((value) => listOf([listOrNone(value).at(+index)]));
    else if (inner === undefined) steps.push(all === undefined ? valuesOf : listOrNone);
    else steps.push(filter(inner, operator, literal));
  }
  return (value) => steps.reduce<readonly unknown[]>((values, one) => values.flatMap(one), [value]);
}

function filter(inner: string, operator?: string, literal?: string): Path {
  // The steps of an inner path would move `step`, which is in use.
  const at = step.lastIndex;
  const path = readPath(inner);
  step.lastIndex = at;
  const wanted = literal === undefined ? undefined : readLiteral(literal);
  const matches = (value: unknown): boolean => {
    const [found] = path(value);
    if (operator === undefined) return found !== undefined;
    return (found === wanted) === (operator === '==');
  };
  return (value) => listOrNone(value).filter(matches);
}

function readLiteral(text: string): unknown {
  try {
    return JSON.parse(text.startsWith("'") ? `"${text.slice(1, -1)}"` : text);
  } catch {
    throw wrong(`${text} is not a value`);
  }
}

function fieldOf(value: unknown, name: string): readonly unknown[] {
  const isObject = typeof value === 'object' && value !== null && Object.hasOwn(value, name);
  return isObject ? listOf([(value as Record<string, unknown>)[name]]) : [];
}

function listOf(values: readonly unknown[]): readonly unknown[] {
  return values.filter((value) => value !== undefined);
}

function listOrNone(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function valuesOf(value: unknown): readonly unknown[] {
  return typeof value === 'object' && value !== null ? Object.values(value) : [];
}

function wrong(reason: string): UsageError {
  return new UsageError(`wrong template of jsonpath: ${reason}`);
}

/**
 * Readers of values as Go's strconv and pflag read them, with their error texts, which operators
 * and scripts know (behaviour document 1.1).
 */
/** The outcome of reading a text: a value, or what is wrong with the text (no field name in it). */
export type Parsed<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: string };

export function good<T>(value: T): Parsed<T> {
  return { ok: true, value };
}

export function bad(error: string): { readonly ok: false; readonly error: string } {
  return { ok: false, error };
}

const escapes: Readonly<Record<string, string>> = {
  '\u0007': '\\a',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
  '"': '\\"',
  '\\': '\\\\',
};

/** `%q` of Go: double quotes, escapes for what does not print. */
export function quote(text: string): string {
  const escaped = text.replace(/["\\]|[\p{C}\p{Zl}\p{Zp}]/gu, (character) => {
    const known = escapes[character];
    if (known !== undefined) return known;
    const code = character.codePointAt(0) ?? 0;
    if (code < 0x80) return `\\x${code.toString(16).padStart(2, '0')}`;
    if (code < 0x10000) return `\\u${code.toString(16).padStart(4, '0')}`;
    return `\\U${code.toString(16).padStart(8, '0')}`;
  });
  return `"${escaped}"`;
}

/** No number that means something is longer; a megabyte of digits must not be computed with. */
const longest = 100;

const trueTexts: readonly string[] = ['1', 't', 'T', 'TRUE', 'true', 'True'];
const falseTexts: readonly string[] = ['0', 'f', 'F', 'FALSE', 'false', 'False'];

export function parseBool(text: string): Parsed<boolean> {
  if (trueTexts.includes(text)) return good(true);
  if (falseTexts.includes(text)) return good(false);
  return bad(`strconv.ParseBool: parsing ${quote(text)}: invalid syntax`);
}

/** Go's integer literals: decimal, 0x, 0o, 0b, a bare leading 0 is octal, `_` between digits. */
const literal =
  /^[+-]?(?:0[xX](?:_?[\da-fA-F])+|0[bB](?:_?[01])+|0[oO]?(?:_?[0-7])+|0|[1-9](?:_?\d)*)$/;

/** A whole number in int32, as pflag reads it (base 0). */
export function parseInt32(text: string): Parsed<number> {
  const problem = (kind: string) => bad(`strconv.ParseInt: parsing ${quote(text)}: ${kind}`);
  if (text.length > longest || !literal.test(text)) return problem('invalid syntax');
  const negative = text.startsWith('-');
  const digits = text.replace(/^[+-]/, '').replaceAll('_', '');
  const magnitude = BigInt(/^0\d/.test(digits) ? `0o${digits.slice(1)}` : digits.toLowerCase());
  const value = negative ? -magnitude : magnitude;
  if (value < -(2n ** 31n) || value >= 2n ** 31n) return problem('value out of range');
  return good(Number(value));
}

/** A log level: decimal digits only, below 2^31. */
export function parseLevel(text: string): Parsed<number> {
  const problem = (kind: string) => bad(`strconv.ParseUint: parsing ${quote(text)}: ${kind}`);
  if (text.length > longest || !/^\d+$/.test(text)) return problem('invalid syntax');
  const value = BigInt(text);
  return value < 2n ** 31n ? good(Number(value)) : problem('value out of range');
}

export function parseFloat32(text: string): Parsed<number> {
  const problem = (kind: string) => bad(`strconv.ParseFloat: parsing ${quote(text)}: ${kind}`);
  if (!/^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/.test(text)) return problem('invalid syntax');
  const value = Math.fround(Number(text));
  return Number.isFinite(value) ? good(value) : problem('value out of range');
}

/** One line of CSV, which is how pflag splits a list: commas, optional double quotes. */
export function parseCsv(text: string): Parsed<readonly string[]> {
  if (text === '') return good([]);
  const items: string[] = [];
  const item = /(?:"((?:[^"]|"")*)"|([^",\n]*))(,|$)/y;
  for (let at = 0; ; at = item.lastIndex) {
    item.lastIndex = at;
    const match = item.exec(text);
    if (!match) {
      const column = text.indexOf('"', at) + 1;
      return bad(`parse error on line 1, column ${column}: bare " in non-quoted field`);
    }
    items.push(match[1]?.replaceAll('""', '"') ?? match[2] ?? '');
    if (match[3] === '') return good(items);
  }
}

/** `A=true,B=false`; empty parts are skipped, blanks around names and values are dropped. */
export function parseBoolMap(text: string): Parsed<Readonly<Record<string, boolean>>> {
  const result: Record<string, boolean> = {};
  for (const part of text.split(',').filter((pair) => pair !== '')) {
    const equals = part.indexOf('=');
    if (equals < 0) return bad('malformed pair, expect string=bool');
    const name = part.slice(0, equals).trim();
    const value = part.slice(equals + 1).trim();
    const parsed = parseBool(value);
    if (!parsed.ok) return bad(`invalid value of ${name}: ${value}, err: ${parsed.error}`);
    Object.defineProperty(result, name, { value: parsed.value, enumerable: true });
  }
  return good(result);
}

export interface VModuleItem {
  readonly filePattern: string;
  readonly verbosity: number;
}

/** `pattern=N,...`; empty parts are skipped. */
export function parseVModule(text: string): Parsed<readonly VModuleItem[]> {
  const items: VModuleItem[] = [];
  for (const part of text.split(',').filter((pair) => pair !== '')) {
    const [filePattern = '', level = '', ...rest] = part.split('=');
    if (filePattern === '' || level === '' || rest.length > 0) {
      return bad(`${quote(part)} does not have the pattern=N format`);
    }
    const verbosity = parseLevel(level);
    if (!verbosity.ok) return bad(`parsing verbosity in ${quote(part)}: ${verbosity.error}`);
    items.push({ filePattern, verbosity: verbosity.value });
  }
  return good(items);
}

/** A Kubernetes quantity of bytes; `text` as it was written, `bytes` rounded up. */
export interface Quantity {
  readonly text: string;
  readonly bytes: number;
}

const quantitySuffixes: Readonly<Record<string, number>> = {
  '': 1,
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

export function parseQuantity(text: string): Parsed<Quantity> {
  const match = /^([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)$/.exec(
    text,
  );
  const factor = quantitySuffixes[match?.[3] ?? ''];
  if (!match || factor === undefined) {
    return bad(`${quote(text)} is not a quantity such as 512, 1k, 2Ki, 3M or 4Gi`);
  }
  return good({ text, bytes: Math.ceil(Number(`${match[1]}${match[2] ?? ''}`) * factor) });
}

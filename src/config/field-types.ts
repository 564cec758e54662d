/** What can be done with a value of each field type: read it from flag or file, write it out. */
import { formatDuration, parseDuration } from './duration.ts';
import { type FieldPath, fields } from './fields/index.ts';
import type { FieldType, ValueByType } from './fields/spec.ts';
import {
  parseBool,
  parseBoolMap,
  parseCsv,
  parseFloat32,
  parseInt32,
  parseLevel,
  parseQuantity,
  parseVModule,
  type VModuleItem,
} from './go-values.ts';
import { bad, good, type Parsed } from './parsed.ts';
import { describeTree, type Tree } from './tree.ts';

/** A value of a YAML or JSON document. */
export type Json =
  | string
  | number
  | boolean
  | null
  | readonly Json[]
  | { readonly [key: string]: Json };

export interface TypeRules<T> {
  /** For people: what the documentation and errors call it. */
  readonly name: string;
  /** What an absent field without a default holds. */
  readonly zero: T;
  /** Reads the text after a flag. */
  readonly parse: (text: string) => Parsed<T>;
  /** Reads a value of a file; never called with null. */
  readonly decode: (tree: Tree) => Parsed<T>;
  readonly encode: (value: T) => Json;
  readonly format: (value: T) => string;
  /** What the items of a list may hold; absent = items are no mappings. */
  readonly itemKeys?: readonly string[];
}

function expected(what: string, tree: Tree): Parsed<never> {
  return bad(`must be ${what}, not ${describeTree(tree)}`);
}

function decodeString(what: string, tree: Tree): Parsed<string> {
  if (tree.kind === 'string') return good(tree.value);
  const isWord = tree.kind === 'bool' || tree.kind === 'number';
  const hint = isWord ? '; put quotes around it' : '';
  return bad(`must be ${what}, not ${describeTree(tree)}${hint}`);
}

function decodeWhole(tree: Tree, what: string, min: number, max: number): Parsed<number> {
  if (tree.kind !== 'number' || !Number.isInteger(tree.value)) return expected(what, tree);
  if (tree.value < min || tree.value > max) {
    return bad(`must be ${what} from ${min} to ${max}, not ${tree.text}`);
  }
  return good(tree.value === 0 ? 0 : tree.value);
}

function decodeList<T>(tree: Tree, what: string, item: (tree: Tree) => Parsed<T>): Parsed<T[]> {
  if (tree.kind !== 'list') return expected(what, tree);
  const result: T[] = [];
  for (const [index, element] of tree.items.entries()) {
    const parsed = item(element);
    if (!parsed.ok) return bad(`item ${index} (line ${element.line}) ${parsed.error}`);
    result.push(parsed.value);
  }
  return good(result);
}

function decodeDuration(tree: Tree): Parsed<bigint> {
  const text = decodeString('a duration such as "30s"', tree);
  if (!text.ok) return text;
  const parsed = parseDuration(text.value);
  return parsed.ok ? parsed : bad(parsed.error);
}

const bool: TypeRules<boolean> = {
  name: 'boolean',
  zero: false,
  parse: parseBool,
  decode: (tree) => (tree.kind === 'bool' ? good(tree.value) : expected('true or false', tree)),
  encode: (value) => value,
  format: String,
};

const level: TypeRules<number> = {
  name: 'level',
  zero: 0,
  parse: parseLevel,
  decode: (tree) => decodeWhole(tree, 'a whole number', 0, 2 ** 31 - 1),
  encode: (value) => value,
  format: String,
};

const duration: TypeRules<bigint> = {
  name: 'duration',
  zero: 0n,
  parse: parseDuration,
  decode: decodeDuration,
  encode: formatDuration,
  format: formatDuration,
};

const vmodule: TypeRules<readonly VModuleItem[]> = {
  name: 'list of pattern=N',
  zero: [],
  parse: parseVModule,
  decode: (tree) => decodeList(tree, 'a list', decodeVModuleItem),
  encode: (items) => items.map((item) => ({ ...item })),
  format: (items) => items.map((item) => `${item.filePattern}=${item.verbosity}`).join(','),
  itemKeys: ['filePattern', 'verbosity'],
};

function decodeVModuleItem(tree: Tree): Parsed<VModuleItem> {
  if (tree.kind !== 'map') return expected('a mapping with filePattern and verbosity', tree);
  const pattern = tree.entries.get('filePattern')?.tree;
  const verbosity = tree.entries.get('verbosity')?.tree;
  const filePattern = pattern ? decodeString('a string', pattern) : good('');
  if (!filePattern.ok) return bad(`filePattern ${filePattern.error}`);
  const number = verbosity ? level.decode(verbosity) : good(0);
  if (!number.ok) return bad(`verbosity ${number.error}`);
  return good({ filePattern: filePattern.value, verbosity: number.value });
}

function decodeBoolMap(tree: Tree): Parsed<Readonly<Record<string, boolean>>> {
  if (tree.kind !== 'map') return expected('a mapping of names to true or false', tree);
  const pairs: [string, boolean][] = [];
  for (const [name, entry] of tree.entries) {
    const value = bool.decode(entry.tree);
    if (!value.ok) return bad(`${name} (line ${entry.line}) ${value.error}`);
    pairs.push([name, value.value]);
  }
  return good(Object.fromEntries(pairs));
}

const string: TypeRules<string> = {
  name: 'string',
  zero: '',
  parse: good,
  decode: (tree) => decodeString('a string', tree),
  encode: (value) => value,
  format: (value) => value,
};

export const fieldTypes: { readonly [Type in FieldType]: TypeRules<ValueByType[Type]> } = {
  string,
  'string-or-off': {
    ...string,
    decode: (tree) => {
      const isOff = tree.kind === 'bool' && !tree.value;
      return isOff ? good('off') : string.decode(tree);
    },
  },
  bool,
  int32: {
    name: 'int32',
    zero: 0,
    parse: parseInt32,
    decode: (tree) => decodeWhole(tree, 'a whole number', -(2 ** 31), 2 ** 31 - 1),
    encode: (value) => value,
    format: String,
  },
  level,
  float32: {
    name: 'float32',
    zero: 0,
    parse: parseFloat32,
    decode: (tree) =>
      tree.kind === 'number' && Number.isFinite(Math.fround(tree.value))
        ? good(Math.fround(tree.value))
        : expected('a number', tree),
    encode: (value) => value,
    format: String,
  },
  duration,
  nanoseconds: {
    ...duration,
    name: 'duration or whole nanoseconds',
    decode: (tree) =>
      tree.kind === 'number' && Number.isSafeInteger(tree.value)
        ? good(BigInt(tree.value))
        : decodeDuration(tree),
  },
  strings: {
    name: 'list of strings',
    zero: [],
    parse: parseCsv,
    decode: (tree) => decodeList(tree, 'a list', (item) => decodeString('a string', item)),
    encode: (value) => [...value],
    format: (value) => `[${value.join(',')}]`,
  },
  'bool-map': {
    name: 'mapping of names to booleans',
    zero: {},
    parse: parseBoolMap,
    decode: decodeBoolMap,
    encode: (value) => ({ ...value }),
    format: (value) =>
      Object.keys(value)
        .sort()
        .map((name) => `${name}=${value[name]}`)
        .join(','),
  },
  vmodule,
  quantity: {
    name: 'quantity',
    zero: { text: '0', bytes: 0 },
    parse: parseQuantity,
    decode: (tree) => {
      if (tree.kind === 'number') return parseQuantity(tree.text);
      const text = decodeString('a quantity such as "4Mi"', tree);
      return text.ok ? parseQuantity(text.value) : text;
    },
    encode: (value) => value.text,
    format: (value) => value.text,
  },
};

/** The rules of a field's type with the value's type forgotten, for code that walks the table. */
export function rulesOf(path: FieldPath): TypeRules<unknown> {
  return fieldTypes[fields[path].type] as TypeRules<unknown>;
}

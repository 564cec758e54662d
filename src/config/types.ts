/** What can be done with a value of each type of setting: read it from flag or file, write it. */
import { isDeepStrictEqual } from 'node:util';
import { parseAddress } from '../net/address.ts';
import { splitHostPort } from '../net/host-port.ts';
import { formatDuration, parseDuration } from './duration.ts';
import {
  bad,
  good,
  type Parsed,
  parseBool,
  parseBoolMap,
  parseCsv,
  parseFloat32,
  parseInt32,
  parseLevel,
  parseQuantity,
  parseVModule,
  quote,
  type VModuleItem,
} from './go-values.ts';
import { type SettingKey, settingTable } from './settings/index.ts';
import type { Setting, ValueByType, ValueType } from './settings/spec.ts';
import { describeTree, type Tree } from './tree.ts';
import { kubernetesVersion } from './version.ts';

/** A value of a YAML or JSON document. */
export type Json =
  | string
  | number
  | boolean
  | null
  | readonly Json[]
  | { readonly [key: string]: Json };

interface TypeRules<T> {
  /** For people: what the documentation and errors call it. */
  readonly name: string;
  /** pflag's name of the type, which --help and the documentation show. */
  readonly shown: string;
  /** What an absent setting without a default holds. */
  readonly zero: T;
  /** Reads the text after a flag. */
  readonly parse: (text: string) => Parsed<T>;
  /** Reads a value of a file; never called with null. */
  readonly decode: (tree: Tree) => Parsed<T>;
  readonly encode: (value: T) => Json;
  readonly format: (value: T) => string;
  /** The items that a list may have; absent = items are not mappings. */
  readonly itemKeys?: readonly string[];
  /** Joins the values of a flag that is given twice; absent: the last one counts. */
  readonly join?: (before: T, after: T) => T;
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

function decodeWhole(tree: Tree, min: number, max: number): Parsed<number> {
  const what = 'a whole number';
  if (tree.kind !== 'number' || !Number.isInteger(tree.value)) return expected(what, tree);
  if (tree.value < min || tree.value > max) {
    return bad(`must be ${what} from ${min} to ${max}, not ${tree.text}`);
  }
  return good(tree.value === 0 ? 0 : tree.value);
}

function decodeList<T>(tree: Tree, item: (tree: Tree) => Parsed<T>): Parsed<T[]> {
  if (tree.kind !== 'list') return expected('a list', tree);
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
  return text.ok ? parseDuration(text.value) : text;
}

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

function parseIp(text: string): Parsed<string> {
  return parseAddress(text) ? good(text) : bad(`${quote(text)} is not a valid IP address`);
}

function parseIpPort(text: string): Parsed<string> {
  if (text === '' || parseAddress(text)) return good(text);
  const split = splitHostPort(text);
  if (!split) {
    return bad(`${quote(text)} is not in a valid format (ip or ip:port): no port in it`);
  }
  const host = parseIp(split.host);
  if (!host.ok) return host;
  const isPort = /^\d{1,5}$/.test(split.port) && Number(split.port) <= 65535;
  return isPort ? good(text) : bad(`${quote(split.port)} is not a valid number`);
}

/** `--version=v1.36.2-vendor` may add to the version, not claim another one. */
function parseVersion(text: string): Parsed<string> {
  if (text === 'raw') return good(text);
  if (!text.startsWith('v')) {
    const bool = parseBool(text);
    return bool.ok ? good(String(bool.value)) : bool;
  }
  const core = /^(v\d+\.\d+\.\d+)(?:[-+][0-9A-Za-z.+-]+)?$/.exec(text)?.[1];
  if (core === kubernetesVersion) return good(text);
  return bad(`version ${quote(text)} must match major, minor and patch of ${kubernetesVersion}`);
}

const string: TypeRules<string> = {
  name: 'string',
  shown: 'string',
  zero: '',
  parse: good,
  decode: (tree) => decodeString('a string', tree),
  encode: (value) => value,
  format: (value) => value,
};

const bool: TypeRules<boolean> = {
  name: 'boolean',
  shown: '',
  zero: false,
  parse: parseBool,
  decode: (tree) => (tree.kind === 'bool' ? good(tree.value) : expected('true or false', tree)),
  encode: (value) => value,
  format: String,
};

const number = { zero: 0, encode: (value: number) => value, format: String } as const;

const level: TypeRules<number> = {
  ...number,
  name: 'level',
  shown: 'level',
  parse: parseLevel,
  decode: (tree) => decodeWhole(tree, 0, 2 ** 31 - 1),
};

const duration: TypeRules<bigint> = {
  name: 'duration',
  shown: 'duration',
  zero: 0n,
  parse: parseDuration,
  decode: decodeDuration,
  encode: formatDuration,
  format: formatDuration,
};

const valueTypes: { readonly [Type in ValueType]: TypeRules<ValueByType[Type]> } = {
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
    ...number,
    name: 'int32',
    shown: 'int32',
    parse: parseInt32,
    decode: (tree) => decodeWhole(tree, -(2 ** 31), 2 ** 31 - 1),
  },
  level,
  float32: {
    ...number,
    name: 'float32',
    shown: 'float32',
    parse: parseFloat32,
    decode: (tree) =>
      tree.kind === 'number' && Number.isFinite(Math.fround(tree.value))
        ? good(Math.fround(tree.value) + 0)
        : expected('a number', tree),
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
    shown: 'strings',
    zero: [],
    parse: parseCsv,
    decode: (tree) => decodeList(tree, (item) => decodeString('a string', item)),
    encode: (value) => [...value],
    format: (value) => `[${value.join(',')}]`,
    join: (before, after) => [...before, ...after],
  },
  'bool-map': {
    name: 'mapping of names to booleans',
    shown: 'name=bool,...',
    zero: {},
    parse: parseBoolMap,
    decode: decodeBoolMap,
    encode: (value) => ({ ...value }),
    format: (value) =>
      Object.keys(value)
        .sort()
        .map((name) => `${name}=${value[name]}`)
        .join(','),
    join: (before, after) => ({ ...before, ...after }),
  },
  vmodule: {
    name: 'list of pattern=N',
    shown: 'pattern=N,...',
    zero: [],
    parse: parseVModule,
    decode: (tree) => decodeList(tree, decodeVModuleItem),
    encode: (items) => items.map((item) => ({ ...item })),
    format: (items) => items.map((item) => `${item.filePattern}=${item.verbosity}`).join(','),
    itemKeys: ['filePattern', 'verbosity'],
    join: (before, after) => [...before, ...after],
  },
  quantity: {
    name: 'quantity',
    shown: 'quantity',
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
  ip: { ...string, shown: 'ip', parse: parseIp },
  'ip-port': { ...string, shown: 'ip[:port]', parse: parseIpPort },
  version: { ...string, shown: 'true|false|raw|vX.Y.Z', parse: parseVersion },
};

/** The rules of a type with the value's type forgotten, for code that walks the table. */
export function rulesOfType(type: ValueType): TypeRules<unknown> {
  return valueTypes[type] as TypeRules<unknown>;
}

export function rulesOf(key: SettingKey): TypeRules<unknown> {
  return rulesOfType(settingTable[key].type);
}

/** What the setting holds when nothing gives it. */
export function defaultOf(key: SettingKey): unknown {
  const text = settingTable[key].default;
  if (text === undefined) return rulesOf(key).zero;
  const parsed = rulesOf(key).parse(text);
  if (!parsed.ok) throw new Error(`default of ${key}: ${parsed.error}`);
  return parsed.value;
}

/** Whether the setting holds what its type is without a value. */
export function isZero(key: SettingKey, value: unknown): boolean {
  return isDeepStrictEqual(value, rulesOf(key).zero);
}

/** Returns the value of a flag that is given without one, or undefined if it needs a value. */
export function bareValue({ type, bare }: Setting): string | undefined {
  return type === 'bool' ? 'true' : bare;
}

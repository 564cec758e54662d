import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type LoadResult, loadConfig } from '../../../src/config/load.ts';
import { type FieldPath, fieldPaths, settingTable } from '../../../src/config/settings/index.ts';
import { rulesOf } from '../../../src/config/types.ts';
import { defaultSettings, toDocument } from '../../../src/config/values.ts';
import { bytes, header } from './support.ts';

/** What a mutated file must lead to: an error, or a start with a warning, that says these words. */
interface Mutation {
  readonly name: string;
  readonly file: Uint8Array;
  readonly outcome: 'error' | 'warning';
  readonly says: readonly string[];
}

/** Numbers that are the same in each run (a linear congruential generator). */
function* numbers(seed: number): Generator<number, never> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state;
  }
}

const random = numbers(20_261);

function pick<T>(list: readonly T[]): T {
  return list[random.next().value % list.length]!;
}

/** A file that holds one field, below some harmless lines, so that lines differ. */
function fileWith(path: string, value: string): { text: string; line: number } {
  const padding = random.next().value % 5;
  const keys = path.split('.');
  const lines = keys.map((key, depth) => `${'  '.repeat(depth)}${key}:`);
  const text = `${header}${'# padding\n'.repeat(padding)}${lines.join('\n')} ${value}\n`;
  return { text, line: 2 + padding + keys.length };
}

const wrongValues = {
  string: ['1', 'true', '[a]', '{a: b}'],
  'string-or-off': ['1', 'true', 'on', '[off]'],
  bool: ['"true"', '0', 'maybe', '[]'],
  int32: ['"1"', '1.5', '9999999999', 'many', '{}'],
  level: ['-1', '1.5', '"1"', '[]'],
  float32: ['"1"', 'fast', '[]'],
  duration: ['30', '"PT30S"', '1d', 'soon', '[]'],
  nanoseconds: ['1.5', '"PT5S"', 'soon', '{}'],
  strings: ['a', '[1]', '{a: b}', 'true'],
  'bool-map': ['[a]', '{a: 1}', 'a'],
  vmodule: ['a=1', '[1]', '[{filePattern: 1}]', '{}'],
  quantity: ['"1 KB"', 'true', '[]', 'lots'],
  ip: ['1', 'true', '[a]', '{a: b}'],
  'ip-port': ['1', 'true', '[a]', '{a: b}'],
  version: ['1'],
} as const;

function wrongType(index: number): Mutation {
  const path = fieldPaths[index % fieldPaths.length]!;
  const value = pick(wrongValues[settingTable[path].type]);
  const { text, line } = fileWith(path, value);
  const says = [`failed to decode: ${path} (line ${line}): `];
  return { name: `${path}: ${value}`, file: bytes(text), outcome: 'error', says };
}

function outOfBounds(index: number): Mutation {
  const bounded = fieldPaths.filter((path) => settingTable[path].bounds !== undefined);
  const path = bounded[index % bounded.length]!;
  const { bounds, checkedIn, type } = settingTable[path];
  const beyond = 1 + (random.next().value % 1000);
  const number =
    bounds?.max !== undefined && beyond % 2 === 0 ? bounds.max + beyond : -1000 - beyond;
  const value = type === 'int32' ? String(number) : `-${beyond}ms`;
  const { text, line } = fileWith(path, value);
  const mode = `mode: "${checkedIn?.at(-1) ?? ''}"\n`;
  const shown = rulesOf(path).parse(value);
  const printed = shown.ok ? rulesOf(path).format(shown.value) : '';
  const says = [`\n  ${path} (line ${line}): ${printed}: must be `];
  return { name: `${path}: ${value}`, file: bytes(text + mode), outcome: 'error', says };
}

function unknown(): Mutation {
  const path = pick(fieldPaths);
  const at = random.next().value % path.length;
  const letter = pick(['x', 'q', 'Z']);
  const misspelt = `${path.slice(0, at)}${letter}${path.slice(at)}`;
  const { text, line } = fileWith(misspelt, '1');
  // The first part of the path that is not a section is the unknown one.
  const parts = misspelt.split('.');
  const prefixes = parts.map((_, index) => parts.slice(0, index + 1).join('.'));
  const isSection = (prefix: string) => fieldPaths.some((known) => known.startsWith(`${prefix}.`));
  const shown = prefixes.find((prefix) => !isSection(prefix)) ?? misspelt;
  const says = ['unknown fields, ignored: ', shown];
  if (shown === misspelt) says.push(`(line ${line}`);
  return { name: misspelt, file: bytes(text), outcome: 'warning', says };
}

function duplicate(): Mutation {
  const path = pick(fieldPaths.filter((candidate) => !candidate.includes('.')));
  const line = `${path}: null\n`;
  const says = ['fields given twice', `${path} (line 4)`];
  return { name: path, file: bytes(header + line + line), outcome: 'warning', says };
}

const whole = JSON.stringify(toDocument(defaultSettings), null, 2);

function truncated(index: number): Mutation {
  const length = 1 + Math.floor((index * (whole.length - 2)) / 25) + (random.next().value % 20);
  const text = whole.slice(0, Math.min(length, whole.length - 1));
  return { name: `cut after ${text.length}`, file: bytes(text), outcome: 'error', says: ['line '] };
}

function binary(): Mutation {
  const file = bytes(whole);
  for (let count = 0; count < 8; count += 1) {
    file[random.next().value % file.length] = pick([0x00, 0x01, 0xff, 0xc0, 0x1b]);
  }
  return { name: 'bytes', file, outcome: 'error', says: ['the file is binary'] };
}

function repeat(count: number, make: (index: number) => Mutation): Mutation[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

const mutations: readonly (readonly [string, readonly Mutation[]])[] = [
  ['a wrong type', repeat(fieldPaths.length, wrongType)],
  ['a value out of bounds', repeat(40, outOfBounds)],
  ['an unknown field', repeat(35, unknown)],
  ['a field twice', repeat(20, duplicate)],
  ['a truncated file', repeat(25, truncated)],
  ['a binary file', repeat(20, binary)],
];

function loadBytes(file: Uint8Array): LoadResult {
  return loadConfig(['--config=f'], { readFile: () => file });
}

const stackTrace = /\n\s+at |node:internal|\.ts:\d+|TypeError|RangeError|undefined|\[object/;

describe.each(mutations)('%s', (_what, list) => {
  test.each(list.map((mutation, index) => [index, mutation.name, mutation] as const))(
    '%i: %s',
    (_index, _name, { file, outcome, says }) => {
      const result = loadBytes(file);
      if (outcome === 'error') {
        expect(result).toMatchObject({ kind: 'error', exitCode: 1 });
      } else expect(result).toMatchObject({ kind: 'run' });
      const warnings = result.kind === 'run' ? result.warnings : [];
      const text = result.kind === 'error' ? result.text : warnings.join('\n');
      for (const words of says) expect(text).toContain(words);
      expect(text).not.toMatch(stackTrace);
      expect(text.length).toBeLessThan(2000);
    },
  );
});

test('at least 200 mutated files are tested', () => {
  expect(mutations.flatMap(([, list]) => list).length).toBeGreaterThanOrEqual(200);
});

describe('reading a mutated configuration file', () => {
  const isClear = (result: LoadResult): void => {
    const text = result.kind === 'error' ? result.text : '';
    expect(text).not.toMatch(stackTrace);
    expect(['run', 'error']).toContain(result.kind);
  };

  test('never throws for random bytes', () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (file) => isClear(loadBytes(file))));
  });

  test('never throws for random text', () => {
    const text = fc.string({
      unit: fc.constantFrom(...'{}[]:,-&*!|>\'"%@` \n\tab01#~?<'),
      maxLength: 60,
    });
    fc.assert(fc.property(text, (body) => isClear(loadBytes(bytes(header + body)))));
  });

  test('never throws for random values in any field', () => {
    const value = fc.oneof(fc.jsonValue(), fc.string(), fc.double(), fc.ipV6(), fc.integer());
    fc.assert(
      fc.property(fc.constantFrom(...fieldPaths), value, (path: FieldPath, content) => {
        const { text } = fileWith(path, JSON.stringify(content) ?? 'null');
        isClear(loadBytes(bytes(text)));
      }),
      { numRuns: 300 },
    );
  });
});

/** What commands print is printable, and comes whole. */
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { parse } from 'yaml';
import { Terminal } from '../../../src/cli/terminal.ts';
import { blocksText, columnsText } from '../../../src/cli/text.ts';
import { toYAML } from '../../../src/cli/yaml.ts';
import { widthOf } from '../../../src/serve/printable.ts';

const seed = 1;

/** Characters that have deceived terminals, and others. */
const hostileCharacter = fc.oneof(
  fc.constantFrom(
    ...['\u001b[2J', '\u001b]0;x\u0007', '\u009b', '\u007f', '\u0000', '\b', '\r', '\n', '\t'],
    ...['\u202a', '\u202e', '\u2066', '\u2069', '\u200b', '\u200d', '\u2060', '\ufeff', '\u00ad'],
    ...['\u2028', '\u0085', '\u00a0', '\u3000', '\u0301', '\u3164', '\ufe0f', '\u{e0041}'],
    ...['\ud800', '\u{f0000}', '漢', '한', '😀', 'é', '"', '\\', ':', '#', "'", ' '],
  ),
  fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
);
const hostile = fc.array(hostileCharacter, { maxLength: 12 }).map((parts) => parts.join(''));

/** Controls (C0 without tab and newline, DEL, C1), formats, blanks that hide, and marks. */
const harmful = /(?![\t\n ])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Z}\p{M}\u115f\u1160\u3164\uffa0]/u;

function printed(text: string): string {
  let found = '';
  new Terminal(() => ({ write: (part) => (found += part) })).write(text);
  return found;
}

describe('a terminal', () => {
  it('gets no character that moves its cursor, turns text or hides', () => {
    const check = (text: string): void => {
      expect(printed(text)).not.toMatch(harmful);
    };
    fc.assert(fc.property(hostile, check), { seed, numRuns: 2000 });
  });

  it('gets printable text as it is', () => {
    const text = 'NAME\tünïcode 漢字 😀 é\n';
    expect(printed(text)).toBe(text);
    expect(printed('a\u001b[31mb\u202ec\u0301')).toBe('a\\u001b[31mb\\u202ec\\u0301');
  });

  it('gets JSON that means the same', () => {
    const check = (text: string): void => {
      const value = text.toWellFormed();
      expect(JSON.parse(printed(JSON.stringify({ value }, null, 2)))).toEqual({ value });
    };
    fc.assert(fc.property(hostile, check), { seed, numRuns: 1000 });
  });

  it('gets YAML that means the same', () => {
    const check = (text: string): void => {
      const value = { key: text.toWellFormed(), list: [text.toWellFormed()] };
      const yaml = printed(toYAML(value));
      expect(yaml).not.toMatch(harmful);
      expect(parse(yaml)).toEqual(value);
      // Most readers of YAML take no halves of characters.
      expect(yaml).not.toMatch(/\\ud[89a-f]/);
    };
    fc.assert(fc.property(hostile, check), { seed, numRuns: 1000 });
  });

  it('gets any answer as YAML', () => {
    const check = (value: unknown): void => {
      expect(parse(toYAML(value))).toEqual(value);
    };
    const json = fc.json().map((text): unknown => JSON.parse(text));
    fc.assert(fc.property(json, check), { seed, numRuns: 300 });
    expect(toYAML({ a: { b: [{ c: 1, d: undefined }, [true]] }, e: [], f: 'x y', g: 'no' })).toBe(
      'a:\n  b:\n  - c: 1\n  - - true\ne: []\nf: x y\ng: "no"\n',
    );
  });

  it('gets columns that stay columns, a line for each row', () => {
    const check = (a: string, b: string): void => {
      const rows = [
        ['A', 'B', 'C'],
        [a, 'second', '|'],
        [b, a, '|'],
      ];
      const lines = columnsText(rows).split('\n').slice(0, -1);
      expect(lines).toHaveLength(3);
      const [first, second] = lines.slice(1).map((line) => widthOf(line));
      expect(first).toBe(second);
    };
    fc.assert(fc.property(hostile, hostile, check), { seed, numRuns: 1000 });
  });

  it('counts wide characters as two columns', () => {
    expect(['ab', '漢字', '한', '😀', 'é', '…'].map(widthOf)).toEqual([2, 4, 2, 2, 1, 1]);
  });

  it('is waited for until it has taken everything', async () => {
    const pipe = new PassThrough({ highWaterMark: 1 });
    const terminal = new Terminal(() => pipe);
    const text = 'x'.repeat(200_000);
    terminal.write(text);
    expect(terminal.isPending).toBe(true);
    let isTaken = false;
    const drained = terminal.drained(new AbortController().signal).then(() => {
      isTaken = true;
    });
    await new Promise(setImmediate);
    expect(isTaken).toBe(false);
    let taken = 0;
    pipe.on('data', (part: Buffer) => {
      taken += part.length;
    });
    await drained;
    expect(taken).toBe(text.length);
  });

  it('is not waited for when its reader has gone, or too long', async () => {
    const pipe = new PassThrough({ highWaterMark: 1 });
    const terminal = new Terminal(() => pipe);
    terminal.write('x'.repeat(200_000));
    await terminal.drained(AbortSignal.abort());
    const drained = terminal.drained(new AbortController().signal);
    pipe.destroy();
    await once(pipe, 'close');
    await drained;
    terminal.write('more');
    expect(terminal.isPending).toBe(false);
  });
});

describe('colours', () => {
  const view = [{ facts: [['Status', { text: 'unhealthy', tone: 'bad' }] as const] }];

  function shown(isTTY: boolean): string {
    let found = '';
    new Terminal(() => ({ isTTY, write: (part) => (found += part) })).write(blocksText(view));
    return found;
  }

  afterEach(() => vi.unstubAllEnvs());

  it('are shown by a terminal, and by nothing else', () => {
    vi.stubEnv('NO_COLOR', '');
    expect(shown(true)).toBe('Status:  \u001b[31munhealthy\u001b[39m\n');
    expect(shown(false)).toBe('Status:  unhealthy\n');
  });

  it('are left out where NO_COLOR is set', () => {
    vi.stubEnv('NO_COLOR', '1');
    expect(shown(true)).toBe('Status:  unhealthy\n');
  });

  it('do not widen columns', () => {
    const rows = [
      [{ text: 'a', tone: 'bad' } as const, 'b'],
      ['long', 'c'],
    ];
    const widths = columnsText(rows)
      .replaceAll(/\p{Cc}[rg.]/gu, '')
      .split('\n');
    expect(widths).toEqual(['a     b', 'long  c', '']);
  });
});

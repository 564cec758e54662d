/** What commands print is printable, and comes whole. */
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Terminal } from '../../../src/cli/terminal.ts';
import { widthOf } from '../../../src/serve/printable.ts';
import { blocksText, columnsText } from '../../../src/serve/text.ts';

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
  it('receives no character that moves its cursor, changes text direction or is invisible', () => {
    const check = (text: string): void => {
      expect(printed(text)).not.toMatch(harmful);
    };
    fc.assert(fc.property(hostile, check), { seed, numRuns: 2000 });
  });

  it('receives printable text unchanged', () => {
    const text = 'NAME\tünïcode 漢字 😀 é\n';
    expect(printed(text)).toBe(text);
    expect(printed('a\u001b[31mb\u202ec\u0301')).toBe('a\\u001b[31mb\\u202ec\\u0301');
  });

  it('receives JSON with the same meaning', () => {
    const check = (text: string): void => {
      const value = text.toWellFormed();
      expect(JSON.parse(printed(JSON.stringify({ value }, null, 2)))).toEqual({ value });
    };
    fc.assert(fc.property(hostile, check), { seed, numRuns: 1000 });
  });

  it('receives aligned columns, one line per row', () => {
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

  it('receives wide characters counted as two columns', () => {
    expect(['ab', '漢字', '한', '😀', 'é', '…'].map(widthOf)).toEqual([2, 4, 2, 2, 1, 1]);
  });

  it('makes the process wait until it has read everything', async () => {
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

  it('does not make the process wait if its reader is gone, or too slow', async () => {
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

describe('colours of the output', () => {
  const view = [{ facts: [['Status', { text: 'unhealthy', tone: 'bad' }] as const] }];

  function shown(isTTY: boolean): string {
    let found = '';
    new Terminal(() => ({ isTTY, write: (part) => (found += part) })).write(blocksText(view));
    return found;
  }

  afterEach(() => vi.unstubAllEnvs());

  it('are used on a terminal only', () => {
    vi.stubEnv('NO_COLOR', '');
    expect(shown(true)).toBe('Status:  \u001b[31munhealthy\u001b[39m\n');
    expect(shown(false)).toBe('Status:  unhealthy\n');
  });

  it('are not used if NO_COLOR is set', () => {
    vi.stubEnv('NO_COLOR', '1');
    expect(shown(true)).toBe('Status:  unhealthy\n');
  });

  it('do not change column widths', () => {
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

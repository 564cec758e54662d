import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Chunks, type Framed } from '../../../../src/source/kubernetes/chunks.ts';
import { LineFramer, ListSplitter } from '../../../../src/source/kubernetes/stream.ts';
import { collectGarbage, usedMiB } from '../../../used-memory.ts';

/** Feeds bytes in pieces that end at these places. */
function* pieces(bytes: Buffer, cuts: readonly number[]): Generator<Buffer> {
  const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  let start = 0;
  for (const end of [...places, bytes.length]) {
    yield bytes.subarray(start, end);
    start = end;
  }
}

const text = (framed: Framed): string => framed.toString();

const cutPlaces = fc.array(fc.nat(), { maxLength: 12 });

/** Strings that try to look like structure, or need several bytes. */
const awkward = fc.oneof(
  fc.constantFrom('"items":[', ']}', '{"', '\\', '\\"', 'Zürich', '日本', '🙂', '\n', ''),
  fc.string({ maxLength: 8 }),
);

describe('Chunks', () => {
  it.each([
    [1, 300_000],
    [3, 255],
    [3, 256],
  ])('joins pieces of %i bytes, as their number must not take memory: %i', (bytes, pieces) => {
    const chunks = new Chunks(bytes * pieces);
    const whole = Buffer.from(Array.from({ length: bytes * pieces }, (_, i) => i));
    const beforeMiB = usedMiB();
    for (let at = 0; at < whole.length; at += bytes) chunks.add(whole.subarray(at, at + bytes));
    // It was 32 when each piece was kept.
    expect(usedMiB() - beforeMiB).toBeLessThan(4);
    expect(whole.equals(chunks.take() as Buffer)).toBe(true);
    expect(chunks.length).toBe(0);
  });

  it('keeps at most 256 of the buffers that its pieces are views of', () => {
    const chunks = new Chunks(1000);
    const large = new Set<WeakRef<ArrayBuffer>>();
    for (let i = 0; i < 511; i += 1) {
      const { buffer } = new Uint8Array(100_000);
      large.add(new WeakRef(buffer));
      chunks.add(Buffer.from(buffer, i, 1));
    }
    return new Promise<void>((resolve) => {
      // A WeakRef keeps its value for the turn in which it was made.
      setImmediate(() => {
        collectGarbage();
        const kept = [...large].filter((one) => one.deref() !== undefined);
        expect(kept.length).toBeLessThanOrEqual(256);
        expect(chunks.length).toBe(511);
        resolve();
      });
    });
  });
});

describe('LineFramer', () => {
  it('finds the same lines wherever chunks end, including inside characters', () => {
    fc.assert(
      fc.property(fc.array(awkward), cutPlaces, (words, cuts) => {
        const lines = words.map((word) => JSON.stringify(word));
        const framer = new LineFramer(1000);
        const found: string[] = [];
        for (const piece of pieces(Buffer.from(lines.map((line) => `${line}\n`).join('')), cuts)) {
          found.push(...[...framer.push(piece)].map(text));
        }
        expect(found).toEqual(lines);
        expect(framer.pendingBytes).toBe(0);
      }),
    );
  });

  it('keeps an incomplete line, and omits empty ones', () => {
    const framer = new LineFramer(1000);
    expect([...framer.push(Buffer.from('\n\na'))]).toEqual([]);
    expect(framer.pendingBytes).toBe(1);
    expect([...framer.push(Buffer.from('b\n\nc'))].map(text)).toEqual(['ab']);
    expect(framer.pendingBytes).toBe(1);
  });

  it('reports a line that is too long and continues with the next', () => {
    const framer = new LineFramer(5);
    const found = [...framer.push(Buffer.from('123456\n12345\n12'))];
    found.push(...framer.push(Buffer.from('3456')), ...framer.push(Buffer.from('7\nok\n')));
    expect(found.map(text)).toEqual(['oversized', '12345', 'oversized', 'ok']);
  });
});

describe('ListSplitter', () => {
  const split = (bytes: Buffer, cuts: readonly number[] = [], itemBytesMax = 10_000_000) => {
    const splitter = new ListSplitter(itemBytesMax);
    const items: Framed[] = [];
    for (const piece of pieces(bytes, cuts)) items.push(...splitter.push(piece));
    return { items, envelope: splitter.envelope() };
  };

  const object = fc.dictionary(
    awkward,
    fc.oneof(awkward, fc.array(awkward), fc.dictionary(awkward, fc.jsonValue({ maxDepth: 1 }))),
  );

  it('finds the items and the rest of any list, wherever chunks end', () => {
    // No backslash in keys: JSON.parse of V8 13.6 takes "\n" for "\\" where it has seen that before.
    const envelope = fc.dictionary(
      fc.constantFrom('metadata', 'kind', '"items":[', ']}', 'Zürich', 'item', 'itemss', ''),
      fc.oneof(fc.constantFrom<unknown>('items', 'items:'), fc.jsonValue({ maxDepth: 1 })),
    );
    const indents = fc.constantFrom<0 | 2>(0, 2);
    fc.assert(
      fc.property(
        fc.tuple(envelope, envelope),
        fc.array(object),
        indents,
        cutPlaces,
        ([before, after], items, indent, cuts) => {
          const list = { ...before, items, ...after };
          const found = split(Buffer.from(JSON.stringify(list, null, indent)), cuts);
          const deeper = '\n    ';
          expect(found.items.map(text)).toEqual(
            items.map((item) => JSON.stringify(item, null, indent).replaceAll('\n', deeper)),
          );
          expect(JSON.stringify(found.envelope)).toBe(JSON.stringify({ ...list, items: [] }));
        },
      ),
    );
  });

  it('is not misled by other fields named items', () => {
    const list = '{"metadata":{"items":[{"a":1}]},"kind":"items","items":[{"b":2}],"x":[{"c":3}]}';
    expect(split(Buffer.from(list)).items.map(text)).toEqual(['{"b":2}']);
  });

  it('keeps no colons', () => {
    const splitter = new ListSplitter(1000);
    const colons = Buffer.alloc(1_000_000, ':');
    colons.write('{');
    const beforeMiB = usedMiB();
    expect([...splitter.push(colons)]).toEqual([]);
    // It was 31 when each colon made the key longer.
    expect(usedMiB() - beforeMiB).toBeLessThan(2);
  });

  it('takes a second colon for no items', () => {
    expect(split(Buffer.from('{"items:":[{"a":1}],"b":[{}]}')).items).toEqual([]);
    expect(() => split(Buffer.from('{"items"::[{"a":1}]}'))).toThrow('not a JSON list');
  });

  it('refuses a list as soon as it has more than 1 MiB in addition to its items', () => {
    const splitter = new ListSplitter(1000);
    const spaces = Buffer.alloc(1024 * 1024 - 1, ' ');
    expect([...splitter.push(Buffer.from('{'))]).toEqual([]);
    expect([...splitter.push(spaces)]).toEqual([]);
    expect(() => [...splitter.push(Buffer.from(' '))]).toThrow('over 1048576 bytes without items');
  });

  it('treats null items as an empty list', () => {
    const { items, envelope } = split(Buffer.from('{"metadata":{},"items":null}'));
    expect(items).toEqual([]);
    expect(envelope).toEqual({ metadata: {}, items: null });
  });

  it('reports an item that is too large and continues with the next', () => {
    const list = `{"items":[{"a":"${'x'.repeat(50)}"},{"b":1}]}`;
    expect(split(Buffer.from(list), [20, 30], 20).items.map(text)).toEqual([
      'oversized',
      '{"b":1}',
    ]);
  });

  it.each([
    ['cut in the envelope', '{"metadata":{'],
    ['cut before the items', '{"items":['],
    ['cut in an item', '{"items":[{"a":1'],
    ['cut after an item', '{"items":[{"a":1}'],
    ['cut after the items', '{"items":[{"a":1}]'],
    ['items that are no objects', '{"items":[1,2]}'],
    ['items twice', '{"items":[],"items":[]}'],
    ['HTML', '<html>'],
    ['nothing', ''],
  ])('rejects what is not a list: %s', (_what, bytes) => {
    expect(() => split(Buffer.from(bytes))).toThrow(/list/);
  });
});

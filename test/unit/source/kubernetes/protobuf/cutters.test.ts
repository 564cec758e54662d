import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FrameCutter } from '../../../../../src/source/kubernetes/protobuf/encoding.ts';
import { ListCutter } from '../../../../../src/source/kubernetes/protobuf/list-cutter.ts';
import { StringCache } from '../../../../../src/source/kubernetes/protobuf/string-cache.ts';
import { encodeList, envelop } from '../../../../fake/protobuf.ts';

/** Bytes in pieces that end at these places. */
function pieces(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  return [...places, bytes.length].map((end, i) =>
    bytes.subarray(i === 0 ? 0 : places[i - 1]!, end),
  );
}

const values = fc.array(fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)));
const cutPlaces = fc.array(fc.nat(), { maxLength: 12 });
const hex = (bytes: Buffer | 'oversized'): string =>
  bytes === 'oversized' ? bytes : bytes.toString('hex');

function frame(bytes: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

describe('FrameCutter', () => {
  it('finds the same frames wherever chunks end, including inside lengths', () => {
    fc.assert(
      fc.property(values, cutPlaces, (all, cuts) => {
        const frames = all.filter(({ length }) => length > 0);
        const cutter = new FrameCutter(1000);
        const parts = pieces(Buffer.concat(frames.map(frame)), cuts);
        const found = parts.flatMap((part) => [...cutter.push(part)].map(hex));
        expect(found).toEqual(frames.map(hex));
        expect(cutter.pendingBytes).toBe(0);
      }),
    );
  });

  it('reports an incomplete frame, and one that is too long', () => {
    const cutter = new FrameCutter(3);
    const [long, short] = [frame(Buffer.from('long')), frame(Buffer.from('ok'))];
    expect([...cutter.push(long.subarray(0, 2))]).toEqual([]);
    expect(cutter.pendingBytes).toBeGreaterThan(0);
    const found = [long.subarray(2, 6), long.subarray(6), short].flatMap((part) => [
      ...cutter.push(part),
    ]);
    expect(found.map(String)).toEqual(['oversized', 'ok']);
    expect(cutter.pendingBytes).toBe(0);
  });

  it.each(['<html>', '\0\0\0\0'])('rejects invalid frames: %j', (text) => {
    expect(() => [...new FrameCutter(1000).push(Buffer.from(text))]).toThrow('a frame of');
  });
});

const metadata = { resourceVersion: '7', continue: 'next' };

function cut(parts: readonly Buffer[], itemBytesMax = 1000) {
  const cutter = new ListCutter(itemBytesMax, new StringCache());
  const items = parts.flatMap((part) => [...cutter.push(part)].map(hex));
  return { items, envelope: cutter.envelope() };
}

describe('ListCutter', () => {
  it('finds the same items wherever chunks end', () => {
    fc.assert(
      fc.property(values, cutPlaces, (items, cuts) => {
        const body = encodeList('v1', 'ServiceList', metadata, items);
        const found = cut(pieces(body, cuts));
        expect(found).toEqual({ items: items.map(hex), envelope: { metadata } });
      }),
    );
  });

  it('reports an item that is too long and continues with the next', () => {
    const items = [Buffer.from('long'), Buffer.from('ok')];
    const body = encodeList('v1', 'ServiceList', metadata, items);
    const expected = ['oversized', hex(Buffer.from('ok'))];
    expect(cut([body], 3).items).toEqual(expected);
    expect(
      cut(
        [...body].map((byte) => Buffer.of(byte)),
        3,
      ).items,
    ).toEqual(expected);
  });

  it('reports a list that is truncated anywhere', () => {
    const body = encodeList('v1', 'ServiceList', metadata, [
      Buffer.from('one'),
      Buffer.from('two'),
    ]);
    for (let end = 0; end < body.length; end += 1) {
      expect(() => cut([body.subarray(0, end)])).toThrow(/ended in the middle|is not a list/);
    }
  });

  it('refuses metadata of more than 1 MiB by their length', () => {
    const begin = (bytes: number): Buffer[] => {
      const whole = encodeList('v1', 'ServiceList', { continue: 'x'.repeat(bytes) }, []);
      return [...new ListCutter(1000, new StringCache()).push(whole.subarray(0, 100))].map(
        Buffer.from,
      );
    };
    expect(begin(1024 * 1024 - 20)).toEqual([]);
    expect(() => begin(1024 * 1024)).toThrow('is not a protobuf list');
  });

  it.each([
    ['HTML', Buffer.from('<html>')],
    ['JSON', Buffer.from('{"items":[]}')],
    ['an object of another kind', envelop('v1', 'Status', Buffer.from([0x0a, 0]))],
    ['an item that is longer than the list', envelop('v1', 'List', Buffer.from([0x12, 9, 1]))],
    ['a field without a number', envelop('v1', 'List', Buffer.from([0x02, 0]))],
    ['an endless number', envelop('v1', 'List', Buffer.alloc(12, 0xff))],
  ])('refuses %s', (_what, body) => {
    expect(() => cut([body])).toThrow('is not a protobuf list');
  });
});

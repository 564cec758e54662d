import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { expressions, nftOps, replies, requests } from '../../../src/kernel/ops.ts';
import {
  type FieldType,
  RecordError,
  RecordWriter,
  readRecords,
  recordStarts,
  type Schema,
} from '../../../src/kernel/records.ts';

const example = {
  all: {
    code: 7,
    fields: { a: 'u8', b: 'u16', c: 'u32', d: 'i32', e: 'u64', f: 'string', g: 'bytes' },
  },
  nothing: { code: 8, fields: {} },
} as const satisfies Schema;

const values: Record<FieldType, fc.Arbitrary<number | string | Uint8Array>> = {
  u8: fc.nat(0xff),
  u16: fc.nat(0xffff),
  u32: fc.nat(0xffffffff),
  i32: fc.integer({ min: -0x80000000, max: 0x7fffffff }),
  u64: fc.nat(Number.MAX_SAFE_INTEGER),
  string: fc.string({ unit: 'grapheme' }),
  bytes: fc.uint8Array({ maxLength: 40 }),
};

/** Any record of a schema, as `readRecords` gives it. */
function anyRecord(schema: Schema): fc.Arbitrary<{ kind: string }> {
  return fc.oneof(
    ...Object.entries(schema).map(([kind, { fields }]) => {
      const members = Object.entries(fields).map(([name, type]) => [name, values[type]]);
      return fc.record<{ kind: string }>({
        kind: fc.constant(kind),
        ...Object.fromEntries(members),
      });
    }),
  );
}

function write(schema: Schema, records: readonly { kind: string }[]): Uint8Array {
  const writer = new RecordWriter(schema, 8);
  for (const { kind, ...fields } of records) writer.write(kind, fields as never);
  return writer.finish();
}

describe('records', () => {
  test('of writers that take turns stay apart', () => {
    const tables = ['a', 'b'] as const;
    const writers = tables.map(() => new RecordWriter(nftOps));
    for (let i = 0; i < 200; i += 1) {
      for (const [of, table] of tables.entries()) {
        writers[of]!.write('tableDelete', { family: 2, table });
      }
    }
    const read = writers.map((writer) => Array.from(readRecords(nftOps, writer.finish())));
    const expected = tables.map((table) => ({ kind: 'tableDelete', family: 2, table }));
    expect(read).toEqual(expected.map((one) => new Array(200).fill(one)));
  });

  test.each([
    ['nftOps', nftOps],
    ['requests', requests],
    ['replies', replies],
    ['expressions', expressions],
    ['an example with every type', example],
  ])('are read with the values that were written: %s', (_, schema: Schema) => {
    fc.assert(
      fc.property(fc.array(anyRecord(schema), { maxLength: 6 }), (records) => {
        expect([...readRecords(schema, write(schema, records))]).toEqual(records);
      }),
      { numRuns: 60 },
    );
  });

  test('have the documented layout: code, payload bytes, then words in host order', () => {
    const bytes = write(example, [
      { kind: 'all', a: 1, b: 2, c: 3, d: -4, e: 2 ** 32 + 5, f: 'hello', g: Uint8Array.of(9) },
    ] as never);
    const words = [...new Uint32Array(bytes.slice().buffer)];
    const hello = [0x6c6c6568, 0x6f];
    expect(words).toEqual([7, 44, 1, 2, 3, 0xfffffffc, 5, 1, 5, ...hello, 1, 9]);
  });

  test('are numbered in the order of writing', () => {
    const writer = new RecordWriter(example);
    expect([writer.write('nothing', {}), writer.write('nothing', {})]).toEqual([0, 1]);
    expect(writer.count).toBe(2);
    expect(writer.byteLength).toBe(16);
  });

  test.each([
    ['a', 256],
    ['a', -1],
    ['b', 65536],
    ['c', 2 ** 32],
    ['c', 1.5],
    ['d', 2 ** 31],
    ['e', 2 ** 53],
    ['e', Number.NaN],
  ])('reject a number that does not fit its field: %s = %d', (field, value) => {
    const fields = { a: 0, b: 0, c: 0, d: 0, e: 0, f: '', g: new Uint8Array() };
    const writer = new RecordWriter(example);
    expect(() => writer.write('all', { ...fields, [field]: value })).toThrow(
      new RangeError(`all.${field}: ${value} is not a ${example.all.fields[field as 'a']}`),
    );
  });

  test('that are truncated are rejected, not misread', () => {
    const bytes = write(example, [
      { kind: 'all', a: 1, b: 2, c: 3, d: 4, e: 5, f: 'hello', g: Uint8Array.of(1, 2) },
    ] as never);
    for (let length = 1; length < bytes.length; length += 1) {
      const cut = bytes.subarray(0, length);
      expect(() => [...readRecords(example, cut)], `${length} bytes`).toThrow(RecordError);
    }
  });

  test('name the field for which their payload is too short', () => {
    const bytes = write(example, [
      { kind: 'all', a: 1, b: 2, c: 3, d: 4, e: 5, f: 'hello', g: new Uint8Array() },
    ] as never);
    new DataView(bytes.buffer).setUint32(4, 20, true);
    expect(() => [...readRecords(example, bytes)]).toThrow('all.e is truncated');
  });

  test('with a length near 2^32 are rejected', () => {
    const bytes = write(example, [
      { kind: 'all', a: 1, b: 2, c: 3, d: 4, e: 5, f: 'hello', g: new Uint8Array() },
    ] as never);
    new DataView(bytes.buffer).setUint32(32, 0xffffffff, true);
    expect(() => [...readRecords(example, bytes)]).toThrow('all.f is truncated');
  });

  test('that continue after their last field are rejected', () => {
    const [longer, bytes] = [new Uint8Array(12), write(example, [{ kind: 'nothing' }])];
    longer.set(bytes);
    new DataView(longer.buffer).setUint32(4, 4, true);
    expect(() => [...readRecords(example, longer)]).toThrow(
      'nothing has bytes after its last field',
    );
  });

  test('with an unknown code are rejected', () => {
    const bytes = write(example, [{ kind: 'nothing' }]);
    expect(() => [...readRecords(nftOps, bytes.fill(0xff, 0, 4))]).toThrow(
      'unknown record code 4294967295 at byte 0',
    );
  });
});

test('the records of a buffer begin at the returned offsets', () => {
  fc.assert(
    fc.property(fc.array(anyRecord(example), { maxLength: 10 }), (records) => {
      const writer = new RecordWriter(example, 16);
      for (const { kind, ...fields } of records) writer.write(kind as 'all', fields as never);
      const bytes = writer.finish();
      const first = [...recordStarts(bytes)].map((start) => {
        return readRecords(example, bytes.subarray(start)).next().value;
      });
      expect(first).toEqual(records);
    }),
  );
});

/** Objects of more values than any that etcd stores. */
import { describe, expect, it } from 'vitest';
import { decodeContext } from '../../../../src/source/decode.ts';
import { json } from '../../../../src/source/kubernetes/encoding.ts';
import { readJson } from '../../../../src/source/kubernetes/json-body.ts';
import { protobuf } from '../../../../src/source/kubernetes/protobuf/encoding.ts';
import { StringCache } from '../../../../src/source/kubernetes/protobuf/string-cache.ts';
import { finish } from '../../../../src/state/steps.ts';
import { encodeEvent, encodeObject } from '../../../fake/protobuf.ts';

const most = 1_000_000;
/** A list of this number of commas, with a bracket. */
const zeros = (count: number): string => `[0${',0'.repeat(count - 1)}]`;

describe('JSON', () => {
  it.each([
    ['lists', '[],'],
    ['objects', '{},'],
    ['numbers', '0,'],
  ])('of more than a million values is not parsed: %s', (_what, value) => {
    const bytes = Buffer.from(`{"a":[${value.repeat(most)}0]}`);
    expect(() => finish(json.item(bytes))).toThrow('it has more than 1000000 values: "{"a":[');
  });

  it('that is nested more than a million times is not parsed', () => {
    const deep = (count: number) => Buffer.from('['.repeat(count) + ']'.repeat(count));
    expect(Array.isArray(finish(json.item(deep(most))))).toBe(true);
    expect(() => finish(json.item(deep(most + 1)))).toThrow('it has more than 1000000 values');
  });

  it('of exactly a million values is parsed, whatever its strings have', () => {
    const text = JSON.stringify(['[{,"', '\\', '"'].map((one) => one.repeat(1000)).join(''));
    const bytes = Buffer.from(`{"a":${text},"b":${zeros(most - 2)}}`);
    expect(finish(json.item(bytes))).toHaveProperty('b.length', most - 2);
    const more = bytes.toString().replace('"b":[', '"b":[0,');
    expect(() => finish(json.item(Buffer.from(more)))).toThrow('more than 1000000 values');
  });

  it('of too many values is refused in an event and in a body, too', async () => {
    const line = Buffer.from(`{"type":"ADDED","object":{"a":${zeros(most)}}}`);
    expect(() => finish(json.event(line))).toThrow(
      'invalid watch event: it has more than 1000000 values',
    );
    async function* body() {
      yield Buffer.from(zeros(most + 1));
    }
    await expect(readJson(body(), 2 ** 24)).rejects.toThrow('its answer is not JSON');
  });
});

describe('protobuf', () => {
  const encoding = protobuf('services', decodeContext('here'), new StringCache());
  const metadata = { name: 'web', namespace: 'shop' };
  const start = encodeObject('Service', { metadata });
  /** With this number of fields: three of them are the metadata and its names. */
  const object = (fields: number) =>
    Buffer.concat([start, Buffer.alloc(2 * (fields - 3), '\x7a\0')]);

  it('of more than a million fields is refused, with the name of the object', () => {
    expect(finish(encoding.item(object(most)))).toEqual({ metadata });
    const refused = 'Service shop/web: it has more than 1000000 fields';
    expect(() => finish(encoding.item(object(most + 1)))).toThrow(refused);
    const event = encodeEvent('ADDED', 'v1', 'Service', object(most + 1));
    // The length of the frame is not of the event.
    expect(() => finish(encoding.event(event.subarray(4)))).toThrow(
      `invalid watch event: ${refused}`,
    );
  });

  it('that repeats one field is refused as well', () => {
    // Eight million ports of two bytes took 609 MB and ten seconds.
    const ports = Buffer.alloc(16 * 2 ** 20, '\x0a\0');
    const length = Buffer.from([0x12, 0x80, 0x80, 0x80, 0x08]);
    const bytes = Buffer.concat([start, length, ports]);
    expect(() => finish(encoding.item(bytes))).toThrow('spec: it has more than 1000000 fields');
  });
});

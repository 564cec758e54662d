/** Annotations about connections whose endpoint has gone. */
import { expect, it } from 'vitest';
import { annotationsOf, decodeEndings } from '../../../../src/source/decode/annotations.ts';
import { FieldReader } from '../../../../src/source/decode/field-reader.ts';

const [end, flows] = ['fairlead.io/end-connections', 'fairlead.io/udp-flows'];

function reading(annotations: Record<string, unknown> | undefined) {
  const fields = new FieldReader('Service');
  const value = decodeEndings(annotationsOf(fields, annotations, 'Service'));
  return { value, told: fields.problems.map(({ field, reason }) => `${field} ${reason}`) };
}

it.each([
  ['never', undefined],
  ['on-removal', { endAfterMs: 1000 }],
  ['after:1s', { endAfterMs: 1000 }],
  ['after:5m', { endAfterMs: 300_000 }],
  ['after:1h', { endAfterMs: 3_600_000 }],
])('end-connections may be %s', (text, value) => {
  expect(reading({ [end]: text })).toEqual({ value, told: [] });
});

it.each(['after:0s', 'after:61m', 'after:5', 'after:', 'after:1.5s', 'always', '', 5, null])(
  'end-connections may not be %j, and then nothing is ended',
  (text) => {
    expect(reading({ [end]: text })).toEqual({
      value: undefined,
      told: [
        `metadata.annotations[${end}] must be never, on-removal, or after: with a duration from 1s to 1h, is ${JSON.stringify(text)}`,
      ],
    });
  },
);

it.each([
  ['9s', undefined],
  ['10s', 10_000],
  ['24h', 86_400_000],
  ['25h', undefined],
])('max-connection-age is %s at least or at most, or means nothing: %s', (text, maxAgeMs) => {
  const { told, value } = reading({ 'fairlead.io/max-connection-age': text });
  expect(value).toEqual(maxAgeMs && { maxAgeMs });
  expect(told).toHaveLength(maxAgeMs === undefined ? 1 : 0);
});

it('keeps UDP flows where the other annotation says so, with or without the first', () => {
  const keep = { [flows]: 'keep-while-serving' };
  expect(reading(keep)).toEqual({ value: { keepsFlows: true }, told: [] });
  expect(Object.keys(reading(keep).value!)).toEqual(['keepsFlows']);
  expect(reading({ ...keep, [end]: 'on-removal' }).value).toEqual({
    endAfterMs: 1000,
    keepsFlows: true,
  });
});

it.each(['move', '', true])('udp-flows may not be %j', (text) => {
  expect(reading({ [flows]: text, [end]: 'on-removal' })).toEqual({
    value: { endAfterMs: 1000 },
    told: [`metadata.annotations[${flows}] must be keep-while-serving, is ${JSON.stringify(text)}`],
  });
});

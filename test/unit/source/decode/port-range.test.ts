/** The annotation that gives a port of a Service a range. */
import { expect, it } from 'vitest';
import { annotationsOf, decodePortRange } from '../../../../src/source/decode/annotations.ts';
import { FieldReader } from '../../../../src/source/decode/field-reader.ts';
import { http } from '../../state/build.ts';

const name = 'fairlead.io/port-range';
const ports = [http, { ...http, name: 'b', port: 5000 }];

function reading(value: unknown) {
  const fields = new FieldReader('Service');
  const range = decodePortRange(annotationsOf(fields, { [name]: value }, 'Service'), ports, fields);
  return { range, told: fields.problems.map(({ field, reason }) => `${field} ${reason}`) };
}

it.each([
  ['80-81', { first: 80, last: 81 }],
  ['5000-65535', { first: 5000, last: 65_535 }],
])('port-range may be %s', (text, range) => {
  expect(reading(text)).toEqual({ range, told: [] });
});

it.each(['80', '80-80', '81-80', '0-80', '80-65536', '80-', ' 80-81', '80:81', '80-81,90-91', 80])(
  'port-range may not be %j',
  (text) => {
    const allowed = 'two ports like 10000-19999, the first less than the second';
    const told = [`metadata.annotations[${name}] must be ${allowed}, is ${JSON.stringify(text)}`];
    expect(reading(text)).toEqual({ range: { first: 0, last: 0 }, told });
  },
);

it('port-range begins with a port of the Service', () => {
  const reason = 'begins with 81, which is no port of the Service';
  const told = [`metadata.annotations[${name}] ${reason}`];
  expect(reading('81-90')).toEqual({ range: { first: 81, last: 90 }, told });
});

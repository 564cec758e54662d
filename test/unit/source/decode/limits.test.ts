/** Annotations about limits of connections. */
import { expect, it } from 'vitest';
import { annotationsOf, decodeLimits } from '../../../../src/source/decode/annotations.ts';
import { FieldReader } from '../../../../src/source/decode/field-reader.ts';
import { limitAnnotations } from '../../../../src/state/limits.ts';

it.each([
  ['max_connections', 10_000],
  ['max_connections_per_client', 500],
  ['new_connections_per_second', 1_000_000],
  ['new_connections_per_second_per_client', 1_000_000],
] as const)('%s may be from 1 to %i, and otherwise nothing is limited', (reason, most) => {
  const reading = (text: unknown) => {
    const fields = new FieldReader('Service');
    const annotations = { [limitAnnotations[reason]]: text };
    const value = decodeLimits(annotationsOf(fields, annotations, 'Service'));
    return [value, fields.problems.length];
  };
  expect(reading('1')).toEqual([{ [reason]: 1 }, 0]);
  expect(reading(`${most}`)).toEqual([{ [reason]: most }, 0]);
  for (const text of ['0', `${most + 1}`, '1.5', '', '-1', 5]) {
    expect(reading(text)).toEqual([undefined, 1]);
  }
});

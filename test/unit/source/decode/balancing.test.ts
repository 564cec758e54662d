/** Annotations about balances and weights: ours, those of others, and values that mean nothing. */
import { describe, expect, it } from 'vitest';
import {
  annotationsOf,
  annotationTable,
  decodeBalancing,
  decodeWeight,
  type ReadAnnotation,
} from '../../../../src/source/decode/annotations.ts';
import { FieldReader } from '../../../../src/source/decode/field-reader.ts';
import { balances } from '../../../../src/state/deal.ts';

function reading<T>(
  decode: (read: ReadAnnotation) => T,
  annotations: Record<string, unknown> | undefined,
  kind: 'Service' | 'EndpointSlice' = 'Service',
) {
  const fields = new FieldReader(kind);
  const value = decode(annotationsOf(fields, annotations, kind));
  return { value, told: fields.problems.map(({ field, reason }) => `${field} ${reason}`) };
}

const balanceOf = (annotations: Record<string, unknown> | undefined) => {
  const { value, told } = reading(decodeBalancing, annotations);
  return { balance: value?.balance, told };
};
const weightOf = (annotations: Record<string, unknown> | undefined) => {
  return reading(decodeWeight, annotations, 'EndpointSlice');
};

const ours = 'fairlead.io/balance';
const cilium = 'service.cilium.io/lb-algorithm';
const kubeRouter = 'kube-router.io/service.scheduler';

const allOfOurs = Object.entries(annotationTable).filter(([name]) =>
  name.startsWith('fairlead.io/'),
);

it.each(allOfOurs)('%s is for one kind of object', (name, { object }) => {
  const kinds = ['Service', 'EndpointSlice'] as const;
  const [other] = kinds.filter((kind) => kind !== object);
  const named = { Service: 'a Service', EndpointSlice: 'an EndpointSlice' };
  expect(reading(() => undefined, { [name]: '5' }, other).told).toEqual([
    `metadata.annotations[${name}] means nothing at ${named[other!]}: it is for ${named[object]}`,
  ]);
});

describe('the balance of a Service', () => {
  it.each(balances)('is %s where our annotation says so', (balance) => {
    expect(balanceOf({ [ours]: balance })).toEqual({ balance, told: [] });
  });

  it.each([
    [cilium, 'random', 'random'],
    [cilium, 'maglev', 'maglev'],
    [cilium, 'least-conn', 'least-connections'],
    [kubeRouter, 'rr', 'round-robin'],
    [kubeRouter, 'wrr', 'round-robin'],
    [kubeRouter, 'lc', 'least-connections'],
    [kubeRouter, 'wlc', 'least-connections'],
    [kubeRouter, 'sh', 'source-hash'],
    [kubeRouter, 'mh', 'maglev'],
  ])('is understood from %s: %s', (annotation, value, balance) => {
    expect(balanceOf({ [annotation]: value })).toEqual({ balance, told: [] });
  });

  it('is ours before those of others, also where ours is wrong', () => {
    const others = { [cilium]: 'maglev', [kubeRouter]: 'rr' };
    expect(balanceOf({ ...others, [ours]: 'random' }).balance).toBe('random');
    expect(balanceOf(others).balance).toBe('maglev');
    expect(balanceOf({ ...others, [ours]: 'fair' })).toEqual({
      balance: undefined,
      told: [
        'metadata.annotations[fairlead.io/balance] must be one of random, round-robin, source-hash, flow-hash, maglev, least-connections, is "fair"',
      ],
    });
  });

  it.each(['dh', 'toString', '', 7, null])(
    'is none where the value is %j, and that is told',
    (value) => {
      const { balance, told } = balanceOf({ [kubeRouter]: value });
      expect(balance).toBeUndefined();
      expect(told).toHaveLength(1);
    },
  );
});

describe('the weight of an EndpointSlice', () => {
  it.each([
    ['0', 0],
    ['65535', 65_535],
  ])('may be %s', (value, weight) => {
    expect(weightOf({ 'fairlead.io/weight': value })).toEqual({ value: weight, told: [] });
    expect(weightOf({ 'service.cilium.io/weight': value })).toEqual({ value: weight, told: [] });
  });

  it.each(['65536', '-1', '1.5', 'x', '', '1e3', 7])('may not be %j', (value) => {
    const { told, value: weight } = weightOf({ 'fairlead.io/weight': value });
    expect(weight).toBeUndefined();
    expect(told).toEqual([
      `metadata.annotations[fairlead.io/weight] must be a whole number 0–65535 in quotes, is ${JSON.stringify(value)}`,
    ]);
  });
});

describe('the slow start of a Service', () => {
  const slowStartOf = (value: unknown) => reading(decodeBalancing, { [slowStart]: value });
  const slowStart = 'fairlead.io/slow-start';

  it.each([
    ['10s', 10_000],
    ['5m', 300_000],
    ['1h', 3_600_000],
  ])('may be %s', (value, slowStartMs) => {
    expect(slowStartOf(value)).toEqual({ value: { balance: undefined, slowStartMs }, told: [] });
  });

  it('goes with a balance', () => {
    const { value } = reading(decodeBalancing, { [slowStart]: '30s', [ours]: 'maglev' });
    expect(value).toEqual({ balance: 'maglev', slowStartMs: 30_000 });
  });

  it.each(['9s', '2h', '30', '1.5m', '', 30, '99999s'])('may not be %j', (value) => {
    expect(slowStartOf(value)).toEqual({
      value: undefined,
      told: [
        `metadata.annotations[fairlead.io/slow-start] must be from 10s to 1h, is ${JSON.stringify(value)}`,
      ],
    });
  });
});

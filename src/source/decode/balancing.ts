/** Annotations that say how connections are shared out among endpoints. */
import { type Balance, type Balancing, balances, weightMax } from '../../state/deal.ts';
import { annotationField, durationMs } from './annotations.ts';
import { type FieldReader, type RawObject, show } from './field-reader.ts';
import {
  balanceAnnotation,
  ciliumBalanceAnnotation,
  ciliumWeightAnnotation,
  schedulerAnnotation,
  slowStartAnnotation,
  weightAnnotation,
} from './names.ts';

/** The values of Cilium's annotation. */
const ciliumBalances = {
  random: 'random',
  maglev: 'maglev',
  'least-conn': 'least-connections',
} as const satisfies Record<string, Balance>;

/** Schedulers of IPVS. Weights are as EndpointSlices give them, whether or not it is a `w`. */
const schedulers = {
  rr: 'round-robin',
  wrr: 'round-robin',
  lc: 'least-connections',
  wlc: 'least-connections',
  sh: 'source-hash',
  mh: 'maglev',
} as const satisfies Record<string, Balance>;

const ours = Object.fromEntries(balances.map((one) => [one, one])) as Record<string, Balance>;

/** Of several, the first that is given counts. */
const names: readonly (readonly [string, Readonly<Record<string, Balance>>])[] = [
  [balanceAnnotation, ours],
  [ciliumBalanceAnnotation, ciliumBalances],
  [schedulerAnnotation, schedulers],
];

/** Equal ones are one object. */
const equal = new Map<Balance, Balancing>(balances.map((balance) => [balance, { balance }]));

/** What a Service asks for. A value that is not understood asks for nothing. */
export function decodeBalancing(
  fields: FieldReader,
  annotations: RawObject | undefined,
): Balancing | undefined {
  if (annotations === undefined) return undefined;
  const slowStartMs = decodeSlowStart(fields, annotations);
  const balancing = decodeBalance(fields, annotations);
  return slowStartMs === undefined ? balancing : { balance: balancing?.balance, slowStartMs };
}

function decodeBalance(fields: FieldReader, annotations: RawObject): Balancing | undefined {
  for (const [name, meanings] of names) {
    const value = annotations[name];
    if (value === undefined) continue;
    const balance =
      typeof value === 'string' && Object.hasOwn(meanings, value) ? meanings[value]! : undefined;
    if (balance !== undefined) return equal.get(balance)!;
    const allowed = Object.keys(meanings).join(', ');
    return fields.refuse(annotationField(name), `must be one of ${allowed}, is ${show(value)}`);
  }
  return undefined;
}

const [slowStartLeastMs, slowStartMostMs] = [10_000, 3_600_000];

function decodeSlowStart(fields: FieldReader, annotations: RawObject): number | undefined {
  const value = annotations[slowStartAnnotation];
  if (value === undefined) return undefined;
  const ms = durationMs(value);
  if (ms >= slowStartLeastMs && ms <= slowStartMostMs) return ms;
  const reason = `must be from 10s to 1h, is ${show(value)}`;
  return fields.refuse(annotationField(slowStartAnnotation), reason);
}

/** The weight of the endpoints of an EndpointSlice; undefined: it gives none. */
export function decodeWeight(
  fields: FieldReader,
  annotations: RawObject | undefined,
): number | undefined {
  if (annotations === undefined) return undefined;
  for (const name of [weightAnnotation, ciliumWeightAnnotation]) {
    const value = annotations[name];
    if (value === undefined) continue;
    const weight =
      typeof value === 'string' && /^\d{1,5}$/.test(value) ? Number(value) : Number.NaN;
    if (weight <= weightMax) return weight;
    const reason = `must be a whole number 0–${weightMax} in quotes, is ${show(value)}`;
    return fields.refuse(annotationField(name), reason);
  }
  return undefined;
}

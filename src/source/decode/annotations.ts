/**
 * The table of the annotations that say what becomes of a Service or of an EndpointSlice, and their
 * decoding. The names that are read, hints about misspelt ones and docs/annotations.md follow.
 */
import { isNear } from '../../net/near.ts';
import { type Balance, type Balancing, balances, weightMax } from '../../state/deal.ts';
import { type Detection, type DetectionMode, detectionModes } from '../../state/detection.ts';
import { type Endings, removalMs } from '../../state/endings.ts';
import {
  type LimitReason,
  type Limits,
  limitAnnotations,
  limitReasons,
} from '../../state/limits.ts';
import type { PortRange, Service } from '../../state/types.ts';
import { type FieldReader, type RawObject, show } from './field-reader.ts';
import { initialEventsEndAnnotation, mirrorAnnotation, triggerTimeAnnotation } from './names.ts';

type Kind = 'Service' | 'EndpointSlice';

/** The values of an annotation. */
interface Values<V> {
  /** In the words of errors (`must be …`) and docs/annotations.md. */
  readonly allowed: string;
  /** The meaning of a value; undefined: it is not allowed. */
  readonly read: (text: string) => V | undefined;
}

interface Annotation extends Values<unknown> {
  readonly object: Kind;
  /** For docs/annotations.md, with links. */
  readonly meaning: string;
  /** The modes in which it has an effect; default: all. */
  readonly modes?: string;
}

function oneOf<const V extends string>(values: readonly V[], separator = ', '): Values<V> {
  const read = (text: string): V | undefined => values.find((value) => value === text);
  return { allowed: values.join(separator), read };
}

function translated<V>(meanings: readonly (readonly [string, V])[]): Values<V> {
  const known = new Map(meanings);
  return { allowed: `one of ${[...known.keys()].join(', ')}`, read: (text) => known.get(text) };
}

const unitsMs = new Map([
  ['s', 1000],
  ['m', 60_000],
  ['h', 3_600_000],
]);

/** NaN: it is not a duration. */
function durationMs(text: string): number {
  const [, number, unit = ''] = /^(\d{1,4})([smh])$/.exec(text) ?? [];
  return Number(number) * (unitsMs.get(unit) ?? Number.NaN);
}

/** In milliseconds. */
function duration(least: string, most = '1h'): Values<number> {
  const [leastMs, mostMs] = [durationMs(least), durationMs(most)];
  const read = (text: string): number | undefined => {
    const ms = durationMs(text);
    return ms >= leastMs && ms <= mostMs ? ms : undefined;
  };
  return { allowed: `from ${least} to ${most}`, read };
}

function wholeNumber(least: number, most: number): Values<number> {
  const read = (text: string): number | undefined => {
    const number = /^\d{1,7}$/.test(text) ? Number(text) : Number.NaN;
    return number >= least && number <= most ? number : undefined;
  };
  return { allowed: `a whole number ${least}–${most} in quotes`, read };
}

const weight = wholeNumber(0, weightMax);

const portRange: Values<PortRange> = {
  allowed: 'two ports like 10000-19999, the first less than the second',
  read: (text) => {
    const [, first, last] = /^(\d{1,5})-(\d{1,5})$/.exec(text)?.map(Number) ?? [];
    const isRange = first! >= 1 && first! < last! && last! <= 65_535;
    return isRange ? { first: first!, last: last! } : undefined;
  },
};

const afterRemoval = duration('1s');
const end: Values<number | 'never'> = {
  allowed: `never, on-removal, or after: with a duration ${afterRemoval.allowed}`,
  read: (text) => {
    if (text === 'never') return text;
    if (text === 'on-removal') return removalMs;
    const [, after = ''] = /^after:(.*)$/.exec(text) ?? [];
    return afterRemoval.read(after);
  },
};

const onService = { object: 'Service' } as const;
const onSlice = { object: 'EndpointSlice' } as const;
const byBalance = { modes: '[depends on the balance](balancing.md#balances)' };

export const annotationTable = {
  'fairlead.io/connect-time': {
    ...onService,
    ...oneOf(['on', 'off'], ' or '),
    meaning:
      '`off`: [connect-time translation](connect-time.md) leaves the Service to packet rules.',
  },
  'fairlead.io/fast-path': {
    ...onService,
    ...oneOf(['on', 'off'], ' or '),
    modes: 'nftables, iptables',
    meaning: '`off`: connections to the Service do not take the [fast path](fast-path.md).',
  },
  'fairlead.io/source-ranges': {
    ...onService,
    ...oneOf(['all']),
    meaning:
      '`loadBalancerSourceRanges` count for node ports and external IPs, too ' +
      '([whom they let in](load-balancers.md#source-ranges-at-all-frontends)).',
  },
  'fairlead.io/balance': {
    ...onService,
    ...translated<Balance>(balances.map((balance) => [balance, balance])),
    ...byBalance,
    meaning: 'How an endpoint is [chosen](balancing.md#balances) for a new connection.',
  },
  'service.cilium.io/lb-algorithm': {
    ...onService,
    ...translated<Balance>([
      ['random', 'random'],
      ['maglev', 'maglev'],
      ['least-conn', 'least-connections'],
    ]),
    ...byBalance,
    meaning: 'The same, where `fairlead.io/balance` is absent.',
  },
  'kube-router.io/service.scheduler': {
    ...onService,
    // Weights are those of EndpointSlices, with or without the `w`.
    ...translated<Balance>([
      ['rr', 'round-robin'],
      ['wrr', 'round-robin'],
      ['lc', 'least-connections'],
      ['wlc', 'least-connections'],
      ['sh', 'source-hash'],
      ['mh', 'maglev'],
    ]),
    ...byBalance,
    meaning:
      'The same, where both are absent. `rr` and `wrr`: round-robin; `lc` and `wlc`: ' +
      'least-connections; `sh`: source-hash; `mh`: maglev.',
  },
  'fairlead.io/slow-start': {
    ...onService,
    ...duration('10s'),
    meaning: 'How long the share of a new endpoint [grows](balancing.md#slow-start).',
  },
  'fairlead.io/failure-detection': {
    ...onService,
    ...oneOf(detectionModes),
    meaning:
      'What becomes of [endpoints that do not answer](balancing.md#endpoints-that-do-not-answer), ' +
      'unless `failureDetection` is `off`.',
  },
  'fairlead.io/probe': {
    ...onService,
    ...oneOf(['tcp']),
    meaning:
      'The node opens a connection to each endpoint once a second, where failures are detected.',
  },
  'fairlead.io/end-connections': {
    ...onService,
    ...end,
    meaning:
      'When TCP connections end whose endpoint [has gone](balancing.md#when-an-endpoint-has-gone); ' +
      'by default never.',
  },
  'fairlead.io/max-connection-age': {
    ...onService,
    ...duration('10s', '24h'),
    modes: 'nftables, iptables, userspace',
    meaning: 'TCP connections that are [older](balancing.md#old-connections) end.',
  },
  'fairlead.io/udp-flows': {
    ...onService,
    ...oneOf(['keep-while-serving']),
    modes: 'ipvs; the other modes always do this',
    meaning: 'UDP flows stay with an endpoint that terminates, as long as it serves.',
  },
  [limitAnnotations.max_connections]: {
    ...onService,
    ...wholeNumber(1, 10_000),
    meaning: 'The most [open connections](connection-limits.md) on each node.',
  },
  [limitAnnotations.max_connections_per_client]: {
    ...onService,
    // The kernel walks them for each connection.
    ...wholeNumber(1, 500),
    meaning: 'For each client address.',
  },
  [limitAnnotations.new_connections_per_second]: {
    ...onService,
    ...wholeNumber(1, 1_000_000),
    meaning: 'The most new connections on each node.',
  },
  [limitAnnotations.new_connections_per_second_per_client]: {
    ...onService,
    ...wholeNumber(1, 1_000_000),
    meaning: 'For each client address.',
  },
  'fairlead.io/port-range': {
    ...onService,
    ...portRange,
    modes: 'nftables, iptables',
    meaning:
      'The port with the first number also gets all the others, and ' +
      '[keeps them](port-ranges.md).',
  },
  'fairlead.io/weight': {
    ...onSlice,
    ...weight,
    meaning: 'The [weight](balancing.md#weights) of all its endpoints; without it they have 100.',
  },
  'service.cilium.io/weight': {
    ...onSlice,
    ...weight,
    meaning: 'The same, where `fairlead.io/weight` is absent.',
  },
} satisfies Readonly<Record<string, Annotation>>;

type Name = keyof typeof annotationTable;
type Meaning<N extends Name> = NonNullable<ReturnType<(typeof annotationTable)[N]['read']>>;

/** The annotations that are read, of objects of any kind. */
export const annotationNames: readonly string[] = [
  ...Object.keys(annotationTable),
  triggerTimeAnnotation,
  mirrorAnnotation,
  initialEventsEndAnnotation,
];

const ourPrefix = 'fairlead.io/';
/** Longer names are not read: none of ours is half as long. */
const misspeltMax = 60;

/** Whether an annotation is one of ours, or meant to be one. `at` returns its characters. */
export function isOurAnnotation(length: number, at: (index: number) => number): boolean {
  if (length <= ourPrefix.length || length > misspeltMax) return false;
  for (let i = 0; i < ourPrefix.length; i += 1) {
    if (at(i) !== ourPrefix.charCodeAt(i)) return false;
  }
  return true;
}

/** The field of an annotation, as errors name it. */
export function annotationField(name: string): string {
  return `metadata.annotations[${name}]`;
}

/**
 * The meaning of the first of some annotations that the object has; undefined: it has none of them,
 * or that one has a value that is not allowed, which is reported.
 */
export type ReadAnnotation = <N extends Name>(...names: readonly N[]) => Meaning<N> | undefined;

/** Reads the annotations of an object, and reports those that mean nothing there. */
export function annotationsOf(
  fields: FieldReader,
  annotations: RawObject | undefined,
  kind: Kind,
): ReadAnnotation {
  if (annotations === undefined) return () => undefined;
  for (const name of Object.keys(annotations)) refuseUnknown(fields, name, kind);
  return <N extends Name>(...names: readonly N[]) => {
    const name = names.find((one) => annotations[one] !== undefined);
    if (name === undefined) return undefined;
    const [value, { allowed, read }] = [annotations[name], annotationTable[name]];
    const meaning = typeof value === 'string' ? (read(value) as Meaning<N> | undefined) : undefined;
    if (meaning !== undefined) return meaning;
    return fields.refuse(annotationField(name), `must be ${allowed}, is ${show(value)}`);
  };
}

/** Refuses an annotation of ours that means nothing at this kind of object: it may be misspelt. */
function refuseUnknown(fields: FieldReader, name: string, kind: Kind): void {
  const at = (index: number): number => name.charCodeAt(index);
  if (!isOurAnnotation(name.length, at)) return;
  const table: Readonly<Record<string, Annotation>> = annotationTable;
  const object = Object.hasOwn(table, name) ? table[name]!.object : undefined;
  if (object === kind) return;
  const named = { Service: 'a Service', EndpointSlice: 'an EndpointSlice' };
  const meant = Object.keys(table).find(
    (one) => table[one]!.object === kind && isNear(name.length, at, one, 2),
  );
  const hint = meant === undefined ? '' : `; did you mean ${meant}?`;
  const place = object === undefined ? hint : `: it is for ${named[object]}`;
  fields.refuse(annotationField(name), `means nothing at ${named[kind]}${place}`);
}

/** Equal ones are one object. */
const balancings = new Map<Balance, Balancing>(balances.map((balance) => [balance, { balance }]));

export function decodeBalancing(read: ReadAnnotation): Balancing | undefined {
  const slowStartMs = read('fairlead.io/slow-start');
  const balance = read(
    'fairlead.io/balance',
    'service.cilium.io/lb-algorithm',
    'kube-router.io/service.scheduler',
  );
  if (slowStartMs !== undefined) return { balance, slowStartMs };
  return balance && balancings.get(balance);
}

/** Equal ones are one object. */
const detections = new Map<DetectionMode | undefined, readonly [Detection, Detection]>(
  [...detectionModes, undefined].map((mode) => [
    mode,
    [
      { mode, probes: false },
      { mode, probes: true },
    ],
  ]),
);

export function decodeDetection(read: ReadAnnotation): Detection | undefined {
  const mode = read('fairlead.io/failure-detection');
  const probes = read('fairlead.io/probe') !== undefined;
  return mode === undefined && !probes ? undefined : detections.get(mode)![probes ? 1 : 0];
}

export function decodeEndings(read: ReadAnnotation): Endings | undefined {
  const after = read('fairlead.io/end-connections');
  const endAfterMs = after === 'never' ? undefined : after;
  const maxAgeMs = read('fairlead.io/max-connection-age');
  const keepsFlows = read('fairlead.io/udp-flows') !== undefined;
  if (endAfterMs === undefined && maxAgeMs === undefined && !keepsFlows) return undefined;
  return {
    ...(endAfterMs && { endAfterMs }),
    ...(maxAgeMs && { maxAgeMs }),
    ...(keepsFlows && { keepsFlows }),
  };
}

export function decodeLimits(read: ReadAnnotation): Limits | undefined {
  const limits: { [Reason in LimitReason]?: number } = {};
  for (const reason of limitReasons) {
    const most = read(limitAnnotations[reason]);
    if (most !== undefined) limits[reason] = most;
  }
  return Object.keys(limits).length === 0 ? undefined : limits;
}

/** The range of ports, which begins nowhere if it is not allowed; undefined: there is none. */
export function decodePortRange(
  read: ReadAnnotation,
  ports: Service['ports'],
  fields: FieldReader,
): PortRange | undefined {
  const { faults } = fields;
  const range = read('fairlead.io/port-range');
  if (range === undefined) return fields.faults > faults ? { first: 0, last: 0 } : undefined;
  if (!ports.some(({ port }) => port === range.first)) {
    const field = annotationField('fairlead.io/port-range');
    fields.refuse(field, `begins with ${range.first}, which is no port of the Service`);
  }
  return range;
}

/** The weight of the endpoints of an EndpointSlice; undefined: it gives none. */
export function decodeWeight(read: ReadAnnotation): number | undefined {
  return read('fairlead.io/weight', 'service.cilium.io/weight');
}

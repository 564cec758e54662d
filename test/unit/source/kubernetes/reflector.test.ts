import { once } from 'node:events';
import { expect, it, onTestFinished, vi } from 'vitest';
import { decodeContext } from '../../../../src/source/decode.ts';
import type { ApiClient, Query } from '../../../../src/source/kubernetes/client.ts';
import { Delivery } from '../../../../src/source/kubernetes/delivery.ts';
import { json } from '../../../../src/source/kubernetes/encoding.ts';
import { ApiError } from '../../../../src/source/kubernetes/errors.ts';
import { protobuf } from '../../../../src/source/kubernetes/protobuf/encoding.ts';
import { StringCache } from '../../../../src/source/kubernetes/protobuf/string-cache.ts';
import { Reflector } from '../../../../src/source/kubernetes/reflector.ts';
import { defaultTiming } from '../../../../src/source/kubernetes/timing.ts';
import { finish } from '../../../../src/state/steps.ts';
import { pause } from '../../../../src/time/clock.ts';
import { Pacer } from '../../../../src/time/pacer.ts';
import { fakeTimeouts, turnsUntil } from '../../turns.ts';
import { Recorder } from '../recorder.ts';

function service(name: string, version: number) {
  return {
    metadata: { namespace: 'ns', name, resourceVersion: String(version) },
    spec: { clusterIP: '10.96.0.1' },
  };
}

const end = {
  metadata: { resourceVersion: '9', annotations: { 'k8s.io/initial-events-end': 'true' } },
};

/** A reflector of Services that knows these, and its end. */
function reflecting(
  client: Pick<ApiClient, 'get'>,
  known: readonly string[] = [],
  presence: 'optional' | 'required' = 'required',
) {
  const sink = new Recorder();
  const context = decodeContext('here');
  const delivery = new Delivery('services', context, sink);
  const encodings = { json, protobuf: protobuf('services', context, new StringCache()) };
  for (const name of known) finish(delivery.decode(service(name, 1)))();
  const target = { resource: 'services', path: '/', query: {}, presence } as const;
  const stopped = new AbortController();
  // All is read in one turn.
  const pacer = new Pacer({ now: () => 0, turn: async () => {} });
  const parts = { delivery, encodings, sink, pacer, timing: defaultTiming };
  const reflector = new Reflector(target, { ...parts, client: client as ApiClient });
  const running = reflector.run(stopped.signal);
  const stop = async (): Promise<void> => {
    stopped.abort();
    await running;
  };
  return { sink, stop };
}

/** Seconds of silence, or what is sent. */
type Step = number | object;
/** Until the answer ends; `nothing`: it never begins. */
type Answer = readonly Step[] | 'nothing' | Error;

function clientOf(answer: (query: Query) => Answer): Pick<ApiClient, 'get'> {
  const wait = async (seconds: number, signal: AbortSignal): Promise<void> => {
    if (seconds === ever) await once(signal, 'abort');
    else await pause(1000 * seconds, signal);
    signal.throwIfAborted();
  };
  async function* body(steps: readonly Step[], signal: AbortSignal) {
    for (const step of steps) {
      if (typeof step === 'number') await wait(step, signal);
      else yield Buffer.from(`${JSON.stringify(step)}\n`);
    }
  }
  return {
    async get(_path, query, signal) {
      const steps = answer(query);
      if (steps instanceof Error) throw steps;
      if (steps === 'nothing') await wait(ever, signal);
      return { form: 'json', body: body(steps as readonly Step[], signal) } as never;
    },
  };
}

const ever = Number.POSITIVE_INFINITY;
const listed = { type: 'BOOKMARK', object: end };
/** Something new each minute. */
const minutes = (count: number): Step[] =>
  Array.from({ length: count }, (_, i): Step[] => {
    return [60, { type: 'BOOKMARK', object: { metadata: { resourceVersion: String(10 + i) } } }];
  }).flat();
const expired = { type: 'ERROR', object: { code: 410 } };

/** Names of the Services that are there after a streaming list with these events. */
async function namesAfter(known: readonly string[], events: [string, object][]): Promise<string[]> {
  const steps = events.map(([type, object]) => ({ type, object }));
  const { sink, stop } = reflecting(
    clientOf(() => [...steps, listed, ever]),
    known,
  );
  await turnsUntil(() => sink.syncedResources.length > 0);
  await stop();
  return sink.names();
}

it.each([
  ['the first list', []],
  ['a later list', ['a', 'gone']],
])(
  'the reflector has after %s the objects of the list, without the deleted ones',
  async (_which, known) => {
    const names = await namesAfter(known, [
      ['ADDED', service('a', 2)],
      ['ADDED', service('b', 3)],
      ['ADDED', service('c', 4)],
      ['DELETED', service('b', 5)],
      ['DELETED', service('c', 6)],
      ['ADDED', service('c', 7)],
    ]);
    expect(names).toEqual(['service ns/a', 'service ns/c']);
  },
);

const live = [listed, ...minutes(1), 40];
const pages = { metadata: { resourceVersion: '10' }, items: [] };
const lost = new Error('lost');
const [unknown, absent, gone, failed] = [400, 404, 410, 500].map((status) => {
  return new ApiError(status, 'refused', undefined);
}) as [ApiError, ApiError, ApiError, ApiError];
/** Events of a list, five seconds each, of as many Services. */
const events = (services: number) =>
  Array.from({ length: 40 }, (_, i) => {
    return [5, { type: 'ADDED', object: service(`s${i % services}`, i) }];
  }).flat();
/** The same at each of these seconds. */
const at = (seconds: readonly number[], ...what: string[]): string =>
  seconds.flatMap((second) => what.map((one) => `${second} ${one}`)).join(', ');
const list = '0 stream 450';
const next = `${list}, 100 watch 450`;
const late = minutes(1).slice(1);

it.each<[string, Answer[], string]>([
  [
    'is silent',
    [[listed, ever], [ever]],
    `${list}, 90 version, 95 watch 53, ${at([185.125, 275.25, 365.375], 'watch 53')}, 455.5 version, 460.5 watch 53`,
  ],
  [
    'does not begin to answer',
    [live, 'nothing'],
    `${next}, 190.125 version, 195.125 watch 53, 375.375 watch 53, 675.875 version, 680.875 watch 53`,
  ],
  ['sends what is new', [[listed, ...minutes(6)], [ever]], `${list}, 330 watch 450`],
  [
    'cannot be reached at first',
    [lost],
    at([0, 0.125, 0.375, 0.875, 1.875, 3.875, 7.875, 12.875, 17.875], 'stream 450'),
  ],
  [
    'cannot be reached any more',
    [live, lost],
    `${next}, ${at([100.125, 100.375, 100.875, 101.875, 103.875, 107.875, 115.875, 130.875, 145.875], 'version', 'watch 9')}`,
  ],
  ['begins no list', ['nothing'], `${list}, 15 pages, 105.125 stream 450, 120.125 pages`],
  ['lists without end', [events(40), 'nothing'], `${list}, 125 pages`],
  ['repeats what it lists', [events(1), 'nothing'], `${list}, 25 pages`],
  [
    'knows pages alone',
    [unknown, [pages], [...minutes(9), 59.874, expired], 'nothing'],
    `${list}, 0 pages, 0 watch 53, 600 pages`,
  ],
  [
    'knew pages alone ten minutes ago',
    [unknown, [pages], [...minutes(9), 59.875, expired], 'nothing'],
    `${list}, 0 pages, 0 watch 53, 600 stream 450`,
  ],
  [
    'sends what is new when a watch ends',
    [[listed, ever], [pages], [52.75, ...late, 0.25], [ever]],
    `${list}, 90 version, 90 watch 53, 143 watch 9`,
  ],
  [
    'sends what is new before a watch ends',
    [[listed, ever], [pages], [52.749, ...late, 0.251], [ever]],
    `${list}, 90 version, 90 watch 53, 143 watch 450`,
  ],
  [
    'needs a list after a minute',
    [[listed, 59.875, expired], [ever]],
    `${list}, 60.125 stream 450`,
  ],
  ['needs a list later', [[listed, 59.876, expired], [ever]], `${list}, 60 stream 450`],
  [
    'ends a watch soon',
    [live, [0.999], [pages], [ever]],
    `${next}, 101.125 version, 101.125 watch 53`,
  ],
  [
    'ends a watch after a second',
    [live, [1], [pages], [ever]],
    `${next}, 101 version, 101 watch 53`,
  ],
  [
    'ends a watch soon after news',
    [live, [0.5, ...minutes(2).slice(3)], [ever]],
    `${next}, 100.5 watch 450`,
  ],
  [
    'refuses everything',
    [live, failed],
    `${next}, ${at([100.125, 100.25, 100.5, 101], 'version')}, 101 watch 9, ${at([101.25, 101.375, 101.625, 102.125], 'version')}, 102.125 watch 9, ${at([102.625, 102.75, 103, 103.5], 'version')}, 103.5 watch 9, ${at([104.5, 106.5, 110.5, 118.5, 133.5], 'stream 450', 'pages')}`,
  ],
  [
    'refuses watches',
    [unknown, ...Array.from({ length: 9 }, () => [[pages], gone]).flat()],
    `${list}, ${at([0, 0.25, 0.75, 1.75, 3.75, 7.75, 15.75, 30], 'pages', 'watch 53')}`,
  ],
  [
    'does not have what is optional',
    [absent],
    at([0, 2.5, 7.5, 17.5, 37.5, 77.5, 157.5, 317.5, 617.5], 'stream 450', 'pages'),
  ],
])('the server is asked at these seconds if it %s', async (what, answers, expected) => {
  fakeTimeouts('setInterval', 'clearInterval', 'performance');
  const random = vi.spyOn(Math, 'random').mockReturnValue(0.5);
  onTestFinished(() => random.mockRestore());
  const [asked, beganMs]: [string[], number] = [[], performance.now()];
  const client = clientOf((query) => {
    const kind =
      query.limit === '1'
        ? 'version'
        : query.sendInitialEvents
          ? 'stream'
          : query.watch
            ? 'watch'
            : 'pages';
    asked.push(
      [Math.round((performance.now() - beganMs) / 25) / 40, kind, query.timeoutSeconds]
        .join(' ')
        .trim(),
    );
    return answers.length > 1 ? answers.shift()! : answers[0]!;
  });
  const { stop } = reflecting(client, [], what.endsWith('optional') ? 'optional' : 'required');
  const lastMs = 1000 * Number.parseFloat(expected.split(', ').at(-1)!);
  await vi.advanceTimersByTimeAsync(lastMs + 10);
  const stopping = stop();
  await vi.advanceTimersByTimeAsync(10_000);
  await stopping;
  expect(asked.join(', ')).toBe(expected);
});

import { afterEach, describe, expect, it, vi } from 'vitest';
import { decodeContext } from '../../../../src/source/decode.ts';
import type { ApiClient, Query } from '../../../../src/source/kubernetes/client.ts';
import { Comparison } from '../../../../src/source/kubernetes/comparison.ts';
import { Delivery } from '../../../../src/source/kubernetes/delivery.ts';
import { json } from '../../../../src/source/kubernetes/encoding.ts';
import { protobuf } from '../../../../src/source/kubernetes/protobuf/encoding.ts';
import { StringCache } from '../../../../src/source/kubernetes/protobuf/string-cache.ts';
import { defaultTiming } from '../../../../src/source/kubernetes/timing.ts';
import { finish } from '../../../../src/state/steps.ts';
import { pause } from '../../../../src/time/clock.ts';
import { Pacer } from '../../../../src/time/pacer.ts';
import { Recorder } from '../recorder.ts';

const minuteMs = 60_000;

function service(name: string, version: number, port = 80): Record<string, unknown> {
  return {
    metadata: { namespace: 'ns', name, resourceVersion: String(version) },
    spec: { clusterIP: '10.96.0.1', ports: [{ port }] },
  };
}

const many = Array.from({ length: 1000 }, (_, i) => ({ name: `p${i}`, port: i + 1 }));

function list(version: string, ...items: readonly unknown[]): string {
  return JSON.stringify({ items, metadata: { resourceVersion: version } });
}

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/**
 * A comparison of Services of which a and b are known, at version 10, with a clock of its own.
 * `inTurn`: what happens whenever the event loop gets a turn; default: it gets none.
 */
function start(answer: () => string | Promise<string>, inTurn?: () => void) {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  // Two comparisons within 41 minutes would be possible.
  if (!vi.isMockFunction(Math.random)) vi.spyOn(Math, 'random').mockReturnValue(0.5);
  const asked: Query[] = [];
  const client = {
    async get(_path: string, query: Query) {
      asked.push(query);
      const text = await answer();
      const body = (async function* () {
        yield Buffer.from(text);
      })();
      return { form: 'json', body };
    },
  } as unknown as ApiClient;
  const sink = new Recorder();
  const context = decodeContext('here');
  const delivery = new Delivery('services', context, sink);
  for (const name of ['a', 'b']) finish(delivery.decode(service(name, 5)))();
  const encodings = { json, protobuf: protobuf('services', context, new StringCache()) };
  const query = { labelSelector: 'x' };
  const target = { resource: 'services', path: '/', query, presence: 'required' } as const;
  const clock = { now: () => 0, turn: async () => inTurn?.() };
  const pacer = new Pacer(clock, inTurn === undefined ? 1 : 0);
  const parts = { client, delivery, encodings, sink, pacer, timing: defaultTiming };
  const comparison = new Comparison(target, parts);
  const differences: number[] = [];
  const stopped = new AbortController();
  let position: string | undefined = '10';
  const running = comparison.run(
    () => position,
    (objects) => differences.push(objects),
    stopped.signal,
  );
  /** Ports of the Services that are there. */
  const ports = (): Record<string, number> =>
    Object.fromEntries(
      [...sink.state.values()].flatMap((change) =>
        change.kind === 'service' ? [[change.service.name, change.service.ports.at(0)!.port]] : [],
      ),
    );
  return {
    ...{ asked, comparison, delivery, differences, ports },
    pass: (ms: number) => vi.advanceTimersByTimeAsync(ms),
    listing: (): void => {
      position = undefined;
    },
    end: async (): Promise<void> => {
      stopped.abort();
      // Until an answer is there that is on its way.
      await vi.advanceTimersByTimeAsync(30_000);
      await running;
    },
  };
}

describe('a comparison', () => {
  it('takes what the list says of objects that no event has changed since', async () => {
    const { pass, ports, differences, asked, end } = start(() =>
      list('12', service('a', 5, 81), service('c', 10), service('d', 11)),
    );
    await pass(41 * minuteMs);
    // The watch is going to deliver d.
    expect(ports()).toEqual({ a: 81, c: 80 });
    expect(differences).toEqual([3]);
    const expected = { resourceVersion: '10', resourceVersionMatch: 'NotOlderThan' };
    expect(asked).toEqual([{ labelSelector: 'x', ...expected }]);
    await end();
  });

  it('reports nothing if nothing differs', async () => {
    const { pass, ports, differences, asked, end } = start(() =>
      list('10', service('a', 5), service('b', 5)),
    );
    await pass(41 * minuteMs);
    expect(asked).toHaveLength(1);
    expect(ports()).toEqual({ a: 80, b: 80 });
    expect(differences).toEqual([]);
    await end();
  });

  it('leaves objects as they are that the watch has changed in the meantime', async () => {
    const { promise, resolve } = Promise.withResolvers<string>();
    const { comparison, delivery, differences, pass, ports, end } = start(() => promise);
    await pass(41 * minuteMs);
    for (const name of ['a', 'b', 'new']) comparison.changes(`ns/${name}`);
    finish(delivery.decode(service('a', 13, 8013)))();
    delivery.remove('ns/b');
    finish(delivery.decode(service('new', 14, 8014)))();
    resolve(list('12', service('a', 5), service('b', 5)));
    await pass(1);
    expect(ports()).toEqual({ a: 8013, new: 8014 });
    expect(differences).toEqual([]);
    await end();
  });

  it('leaves an object as it is that the watch has changed while it was decoded', async () => {
    let turns = 0;
    const { comparison, delivery, differences, pass, ports, end } = start(
      () => list('12', { ...service('a', 5), spec: { clusterIP: '10.96.0.1', ports: many } }),
      () => {
        turns += 1;
        if (turns !== 2) return;
        comparison.changes('ns/a');
        finish(delivery.decode(service('a', 13, 8013)))();
      },
    );
    await pass(41 * minuteMs);
    expect(turns).toBeGreaterThan(2);
    expect(ports()).toEqual({ a: 8013 });
    expect(differences).toEqual([1]);
    await end();
  });

  it.each([
    ['is older than our position', list('9', service('a', 5))],
    ['contains something without a name', list('10', service('a', 5), {})],
    ['contains something unreadable', list('10', service('a', 5), 'x').replace('"x"', '{,}')],
    ['is cut', list('10', service('a', 5)).slice(0, -1)],
    ['has pages', list('10', service('a', 5)).replace('"10"', '"10","continue":"x"')],
    ['has no version', list('', service('a', 5))],
  ])('deletes nothing if the list %s', async (_what, text) => {
    const { pass, ports, asked, end } = start(() => text);
    await pass(41 * minuteMs);
    expect(asked).toHaveLength(1);
    expect(ports()).toEqual({ a: 80, b: 80 });
    await end();
  });

  it('delivers nothing once a list is made', async () => {
    const { promise, resolve } = Promise.withResolvers<string>();
    const { comparison, pass, ports, end } = start(() => promise);
    await pass(41 * minuteMs);
    comparison.stop();
    resolve(list('12', service('a', 5, 81)));
    await pass(1);
    expect(ports()).toEqual({ a: 80, b: 80 });
    await end();
  });

  it('is not made while a list is needed', async () => {
    const { asked, listing, pass, end } = start(() => list('10'));
    listing();
    await pass(41 * minuteMs);
    expect(asked).toEqual([]);
    await end();
  });
});

describe('comparisons', () => {
  it('come 20 to 40 minutes after one another, at random times', async () => {
    const gaps: number[] = [];
    for (const random of [0, 0.5, 0.999_999]) {
      vi.spyOn(Math, 'random').mockReturnValue(random);
      const { asked, pass, end } = start(() => list('10', service('a', 5), service('b', 5)));
      for (const expected of [1, 2]) {
        let minutes = 0;
        for (; asked.length < expected && minutes < 100; minutes += 1) await pass(minuteMs);
        gaps.push(minutes);
      }
      await end();
    }
    expect(gaps).toEqual([20, 20, 30, 30, 40, 40]);
  });

  it.each([
    ['at most a hundredth of the time', list('10'), 3_000_000],
    ['any time if they fail', '{', 20 * minuteMs],
  ])('take %s', async (_what, answer, pauseMs) => {
    vi.spyOn(Math, 'random').mockReturnValue(0);
    const { asked, pass, end } = start(async () => {
      await pause(30_000, new AbortController().signal);
      return answer;
    });
    await pass(20 * minuteMs + 30_000);
    expect(asked).toHaveLength(1);
    await pass(pauseMs - 1);
    expect(asked).toHaveLength(1);
    await pass(1);
    expect(asked).toHaveLength(2);
    await end();
  });
});

import { describe, expect, it } from 'vitest';
import {
  type ClusterEvent,
  type DropReason,
  EventQueue,
} from '../../../../src/source/kubernetes/event-queue.ts';

/** On a node that does not delay events. `add` returns the reason if the event is dropped. */
class Kept extends EventQueue {
  readonly #dropped: DropReason[];
  readonly #clock: { nowMs: number };

  constructor(random = 0) {
    const dropped: DropReason[] = [];
    const clock = { nowMs: 0, wallMs: () => clock.nowMs, random: () => random };
    super({ clock, dropped: (reason) => dropped.push(reason) });
    this.#dropped = dropped;
    this.#clock = clock;
  }

  override add(event: ClusterEvent, nowMs: number): DropReason | undefined {
    this.#clock.nowMs = nowMs;
    super.add(event, nowMs);
    return this.#dropped.shift();
  }
}

function conflict(
  name: string,
  note = 'port 80 is taken',
  namespace: string = 'shop',
): ClusterEvent {
  const regarding = { kind: 'Service', namespace, name, uid: `uid-${name}` } as const;
  return { type: 'Warning', reason: 'FrontendConflict', action: 'Claim', regarding, note };
}

const minuteMs = 60_000;

describe('repeated Events', () => {
  it('are not sent', () => {
    const queue = new Kept();
    queue.add(conflict('web'), 0);
    queue.add(conflict('web'), 10 * minuteMs);
    const first = queue.next(10 * minuteMs)!;
    expect(first).toMatchObject({ event: conflict('web'), firstMs: 0 });
    queue.sent(first, 10 * minuteMs);
    for (let i = 1; i < 10; i += 1) {
      expect(queue.add(conflict('web'), (10 + 5 * i) * minuteMs)).toBeUndefined();
    }
    expect([queue.next(60 * minuteMs), queue.dueMs()]).toEqual([undefined, undefined]);
  });

  it.each([
    ['six minutes of silence', [6 * minuteMs - 1], 12 * minuteMs - 1],
    ['an hour', Array.from({ length: 12 }, (_, i) => 5 * i * minuteMs), 60 * minuteMs],
  ])('become another Event after %s', (_, times, atMs) => {
    const queue = new Kept();
    queue.add(conflict('web'), 0);
    const first = queue.next(0)!;
    queue.sent(first, 0);
    for (const nowMs of [...times, atMs - 1]) queue.add(conflict('web'), nowMs);
    expect(queue.dueMs()).toBeUndefined();
    const silent = new Kept();
    silent.add(conflict('web'), 0);
    silent.sent(silent.next(0)!, 0);
    for (const nowMs of [...times, atMs]) silent.add(conflict('web'), nowMs);
    const second = silent.next(atMs)!;
    expect(second.firstMs).toBe(atMs);
    expect(second.name).not.toBe(first.name);
  });
});

describe('the memory of Events', () => {
  it('has at most 100 Events of a namespace that cannot be sent', () => {
    const series = new Kept();
    const dropped = Array.from({ length: 300 }, (_, i) => series.add(conflict(`s${i}`), i));
    expect(dropped.filter((reason) => reason === undefined)).toHaveLength(100);
    expect(dropped[299]).toBe('too-many');
    for (let next = series.next(300); next !== undefined; next = series.next(300)) {
      series.drop(next, 300);
    }
    expect(series.add(conflict('late'), 300)).toBeUndefined();
  });

  it('has at most 1000 Events of all namespaces that cannot be sent', () => {
    const series = new Kept();
    const add = (i: number) => series.add(conflict(`s${i}`, '', `tenant-${i % 50}`), i);
    const dropped = Array.from({ length: 1500 }, (_, i) => add(i));
    expect(dropped.filter((reason) => reason === undefined)).toHaveLength(1000);
  });

  it('drops what is over: the oldest repetitions become new Events', () => {
    const series = new Kept();
    const one = (i: number) => conflict(`s${i}`, '', `tenant-${i}`);
    for (let i = 0; i < 1100; i += 1) {
      expect(series.add(one(i), i)).toBeUndefined();
      series.sent(series.next(i)!, i);
    }
    series.add(one(1099), 1100);
    expect(series.dueMs()).toBeUndefined();
    series.add(one(0), 1101);
    expect(series.next(1101)?.event).toEqual(one(0));
  });
});

describe('a namespace with very many Events', () => {
  const node = { kind: 'Node', name: 'node-a' } as const;

  it('neither displaces those of others nor keeps them waiting for more than one', () => {
    const series = new Kept();
    for (let i = 0; i < 1000; i += 1) series.add(conflict(`s${i}`, '', 'tenant'), i);
    expect(series.add(conflict('web'), 1000)).toBeUndefined();
    expect(series.add({ ...conflict('', ''), regarding: node }, 1001)).toBeUndefined();
    const sent: string[] = [];
    for (let i = 0; i < 5; i += 1) {
      const next = series.next(2000)!;
      const { regarding } = next.event;
      sent.push(regarding.kind === 'Node' ? 'node' : regarding.namespace);
      series.sent(next, 2000);
      series.add(conflict(`more-${i}`, '', 'tenant'), 2000);
    }
    expect(sent).toEqual(['tenant', 'shop', 'node', 'tenant', 'tenant']);
  });

  it('has its turn by the event that has waited longest', () => {
    const series = new Kept();
    series.add(conflict('late'), 100);
    series.add(conflict('early'), 50);
    expect(series.next(200)?.event).toEqual(conflict('early'));
  });

  it('has ten requests, and then one every ten seconds; others have theirs', () => {
    const series = new Kept();
    const requests = { tenant: 0, shop: 0 };
    for (let nowMs = 0; nowMs <= 10 * minuteMs; nowMs += 200) {
      // 300 Services of the tenant have a fault each minute, and another one has one, too.
      series.add(conflict(`s${(nowMs / 200) % 300}`, '', 'tenant'), nowMs);
      if (nowMs % minuteMs === 1000) series.add(conflict(`web-${nowMs}`), nowMs);
      // A client may send five a second.
      const next = series.next(nowMs);
      if (next === undefined) continue;
      const { regarding } = next.event;
      if (regarding.kind === 'Service') requests[regarding.namespace as 'tenant' | 'shop'] += 1;
      series.sent(next, nowMs);
    }
    expect(requests).toEqual({ tenant: 10 + 60, shop: 10 });
    const alone = new Kept();
    for (let i = 0; i < 11; i += 1) alone.add(conflict(`s${i}`), 0);
    for (let i = 0; i < 10; i += 1) alone.sent(alone.next(0)!, 0);
    expect([alone.next(9999), alone.dueMs()]).toEqual([undefined, 10_000]);
  });

  it('does not take their place where it repeats the same Events again and again', () => {
    const series = new Kept();
    const repeat = (nowMs: number): void => {
      for (let i = 0; i < 1000; i += 1) series.add(conflict(`s${i}`, '', 'tenant'), nowMs);
    };
    repeat(0);
    for (let next = series.next(0); next !== undefined; next = series.next(0)) {
      series.sent(next, 0);
    }
    repeat(1);
    expect(series.add(conflict('web'), 2)).toBeUndefined();
    expect(series.next(2)?.event).toEqual(conflict('web'));
  });
});

describe('an Event that another node has created', () => {
  const next = (series: Kept, nowMs: number) => series.next(nowMs)?.event.note;

  it('becomes another Event after six minutes of silence, with the same name on all nodes', () => {
    const names = [0, minuteMs].map((nowMs) => {
      const series = new Kept();
      series.add(conflict('web'), nowMs);
      const first = series.next(nowMs)!;
      series.sent(first, nowMs, 'in vain');
      series.add(conflict('web'), nowMs + 6 * minuteMs);
      return [first.name, series.next(nowMs + 6 * minuteMs)!.name];
    });
    expect(names[0]![0]).not.toBe(names[0]![1]);
    expect(names[1]).toEqual(names[0]);
  });

  it('has a name of its reason, its topic and the uid', () => {
    const named = (event: ClusterEvent) => {
      const series = new Kept();
      series.add(event, 0);
      return series.next(0)!.name;
    };
    const web = { ...conflict('web', 'node a: it is late'), topic: 'it is late' };
    const { regarding } = web;
    expect(named({ ...web, note: 'node b: it is late' })).toBe(named(web));
    const others = [
      { ...web, topic: 'it is early' },
      { ...web, reason: 'SetAside' },
      { ...web, regarding: { ...regarding, uid: 'another' } } as ClusterEvent,
    ];
    expect(new Set([web, ...others].map(named)).size).toBe(4);
  });

  it('makes the next request of its namespace later, twice as much each time, up to 640 s', () => {
    const series = new Kept();
    const requestsMs: number[] = [];
    for (let nowMs = 0; nowMs < 90 * minuteMs; nowMs += 10_000) {
      series.add(conflict(`s${nowMs}`, '', 'tenant'), nowMs);
      const due = series.next(nowMs);
      if (due === undefined) continue;
      requestsMs.push(nowMs);
      series.sent(due, nowMs, 'in vain');
    }
    const gapsS = requestsMs.slice(1).map((atMs, i) => (atMs - requestsMs[i]!) / 1000);
    expect(gapsS).toEqual([10, 10, 10, 30, 160, 320, 640, 640, 640, 640, 640, 640, 640]);
    // Its own Event makes all as it was.
    const own = series.next(series.dueMs()!)!;
    series.sent(own, series.dueMs()!);
    expect(series.dueMs()! - requestsMs.at(-1)!).toBe(650_000);
  });

  it('is not sent any more after a quarter of an hour', () => {
    const series = new Kept();
    for (const name of ['a', 'b', 'c']) series.add(conflict(name, name), 0);
    expect(series.add(conflict('d', 'd'), 15 * minuteMs - 1)).toBeUndefined();
    expect(next(series, 15 * minuteMs)).toBe('a');
    expect(series.add(conflict('e', 'e'), 15 * minuteMs)).toBe('rate-limited');
    expect(next(series, 15 * minuteMs)).toBe('d');
  });
});

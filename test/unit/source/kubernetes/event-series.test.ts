import { describe, expect, it } from 'vitest';
import { type ClusterEvent, EventSeries } from '../../../../src/source/kubernetes/event-series.ts';

function conflict(name: string, note = 'port 80 is taken'): ClusterEvent {
  const regarding = { kind: 'Service', namespace: 'shop', name, uid: `uid-${name}` } as const;
  return { type: 'Warning', reason: 'FrontendConflict', action: 'Claim', regarding, note };
}

const minuteMs = 60_000;

describe('repeated Events', () => {
  it('become one Event with a count, sent at most once a minute', () => {
    const series = new EventSeries();
    series.add(conflict('web'), 0);
    const first = series.next(0)!;
    expect(first).toMatchObject({ event: conflict('web'), firstMs: 0, count: 1, sent: 0 });
    series.sent(first, 1, 100);
    expect(series.next(100)).toBeUndefined();
    expect(series.dueMs()).toBeUndefined();

    for (const atMs of [200, 300, 400]) expect(series.add(conflict('web'), atMs)).toBeUndefined();
    expect(series.next(400)).toBeUndefined();
    expect(series.dueMs()).toBe(100 + minuteMs);
    expect(series.next(100 + minuteMs)).toMatchObject({
      name: first.name,
      firstMs: 0,
      lastMs: 400,
      count: 4,
      sent: 1,
    });
  });

  it('are sent with the first one if that was not sent yet', () => {
    const series = new EventSeries();
    series.add(conflict('web'), 0);
    series.add(conflict('web'), 10 * minuteMs);
    expect(series.next(10 * minuteMs)).toMatchObject({ count: 2, sent: 0 });
  });

  it('are sent later if they occur while the first is being sent', () => {
    const series = new EventSeries();
    series.add(conflict('web'), 0);
    const sent = series.next(0)!;
    series.add(conflict('web'), 5);
    series.sent(sent, sent.count, 10);
    expect(series.next(10 + minuteMs)).toMatchObject({ count: 2, sent: 1 });
  });

  it('become another Event after six minutes of silence', () => {
    const series = new EventSeries();
    series.add(conflict('web'), 0);
    const first = series.next(0)!;
    series.sent(first, 1, 0);
    series.add(conflict('web'), 6 * minuteMs);
    const second = series.next(6 * minuteMs)!;
    expect(second).toMatchObject({ firstMs: 6 * minuteMs, count: 1, sent: 0 });
    expect(second.name).not.toBe(first.name);
  });

  it('are sent with another name if the server has deleted the Event', () => {
    const series = new EventSeries();
    series.add(conflict('web'), 0);
    const first = series.next(0)!;
    series.sent(first, 1, 0);
    series.add(conflict('web'), 1);
    series.sent(series.next(minuteMs)!, 0, minuteMs);
    const again = series.next(minuteMs)!;
    expect(again).toMatchObject({ count: 2, sent: 0 });
    expect(again.name).not.toBe(first.name);
  });
});

describe('an object with many Events', () => {
  it('gets five Events of a reason, and one more per minute; others get theirs', () => {
    const series = new EventSeries();
    const tell = (note: number, nowMs: number) => series.add(conflict('web', `${note}`), nowMs);
    const sent = Array.from({ length: 8 }, (_, i) => tell(i, 0));
    expect(sent.filter((dropped) => dropped === undefined)).toHaveLength(5);
    expect(sent.slice(5)).toEqual(['rate-limited', 'rate-limited', 'rate-limited']);
    expect(series.add(conflict('other'), 0)).toBeUndefined();
    expect(series.add({ ...conflict('web', 'x'), reason: 'SetAside' }, 0)).toBeUndefined();
    expect(tell(10, minuteMs)).toBeUndefined();
    expect(tell(11, minuteMs)).toBe('rate-limited');
    expect(tell(12, 100 * minuteMs)).toBeUndefined();
  });
});

describe('the memory of Events', () => {
  it('has at most 200 Events that cannot be sent', () => {
    const series = new EventSeries();
    const dropped = Array.from({ length: 300 }, (_, i) => series.add(conflict(`s${i}`), i));
    expect(dropped.filter((reason) => reason === undefined)).toHaveLength(200);
    expect(dropped[299]).toBe('too-many');
    for (let next = series.next(300); next !== undefined; next = series.next(300)) {
      series.drop(next);
    }
    expect(series.add(conflict('late'), 300)).toBeUndefined();
  });

  it('drops what is over: the oldest repetitions become new Events', () => {
    const series = new EventSeries();
    for (let i = 0; i < 1100; i += 1) {
      expect(series.add(conflict(`s${i}`), i)).toBeUndefined();
      const next = series.next(i)!;
      series.sent(next, next.count, i);
    }
    series.add(conflict('s0'), 1100);
    expect(series.next(1100)).toMatchObject({ count: 1, sent: 0 });
    series.add(conflict('s1099'), 1101);
    expect(series.dueMs()).toBe(1100);
  });
});

import { describe, expect, it } from 'vitest';
import { ServiceHistory, type ShownChange } from '../../../src/serve/ask/recent.ts';

/** A change; `after` distinguishes it from others. */
function change(after: number): ShownChange {
  return {
    time: new Date(1_764_000_000_000 + after).toISOString(),
    ...{ port: 'http', protocol: 'TCP', family: 'IPv4', what: 'changed', before: 3, after },
    ...{ added: ['10.244.0.1:8080'], removed: [], also: ['frontends'], latencyMs: 1.5 },
  };
}

function afters(history: ServiceHistory, service: string): number[] {
  return history.of(service).map(({ after }) => after);
}

describe('the history of Services', () => {
  it('returns a change unmodified, with and without latency', () => {
    const history = new ServiceHistory();
    const second = { ...change(2), latencyMs: undefined };
    history.add('ns/web', change(1));
    history.add('ns/web', second);
    expect(history.of('ns/web')).toEqual([second, change(1)]);
    expect(history.of('ns/other')).toEqual([]);
  });

  it('keeps the last ten changes of each Service, however often others change', () => {
    const history = new ServiceHistory();
    history.add('ns/quiet', change(7));
    for (let i = 0; i < 100_000; i += 1) history.add(`ns/busy-${i % 3}`, change(i));
    expect(afters(history, 'ns/quiet')).toEqual([7]);
    expect(afters(history, 'ns/busy-0')).toEqual([...Array(10).keys()].map((i) => 99_999 - 3 * i));
  });

  it('stays within its bound by dropping changes of Services with many', () => {
    const bound = 100_000;
    const history = new ServiceHistory(bound);
    history.add('ns/quiet', change(7));
    for (let i = 0; i < 5000; i += 1) {
      history.add(`ns/s${i % 100}`, change(i));
      expect(history.bytes).toBeLessThanOrEqual(bound);
    }
    expect(afters(history, 'ns/quiet')).toEqual([7]);
    const kept = afters(history, 'ns/s99');
    expect(kept[0]).toBe(4999);
    expect(kept.length).toBeGreaterThan(1);
    expect(kept.length).toBeLessThan(10);
  });

  it('drops deleted Services before changes of others, and then keeps ten again', () => {
    const history = new ServiceHistory(100_000);
    for (let i = 0; i < 30; i += 1) history.add('ns/busy', change(i));
    for (let i = 0; i < 1000; i += 1) {
      history.add(`ns/brief-${i}`, change(i));
      history.add(`ns/brief-${i}`, { ...change(i), what: 'went', after: 0 });
    }
    expect(afters(history, 'ns/busy')).toHaveLength(10);
    expect(afters(history, 'ns/brief-0')).toEqual([]);
  });

  it('drops the Services that changed longest ago if each has only one change', () => {
    const bound = 100_000;
    const history = new ServiceHistory(bound);
    for (let i = 0; i < 5000; i += 1) {
      history.add(`ns/s${i}`, change(i));
      expect(history.bytes).toBeLessThanOrEqual(bound);
    }
    expect(afters(history, 'ns/s0')).toEqual([]);
    expect(afters(history, 'ns/s4999')).toEqual([4999]);
  });
});

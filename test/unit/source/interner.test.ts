import { describe, expect, it } from 'vitest';
import { Interner, lasting } from '../../../src/source/interner.ts';
import { RateLimiter } from '../../../src/source/kubernetes/client.ts';

describe('Interner', () => {
  it('gives equal lists one identity, and stays within its bytes', () => {
    const strings = new Interner(1000);
    expect(strings.list(['a', 'b'])).toBe(strings.list(['a', 'b']));
    expect(strings.list(['a,b'])).toEqual(['a,b']);
    for (let i = 0; i < 100; i += 1) {
      expect(strings.string(`s${i}`)).toBe(`s${i}`);
      expect(strings.list([`s${i}`])).toEqual([`s${i}`]);
      expect(strings.records([{ port: i }])).toEqual([{ port: i }]);
      expect(strings.bytes).toBeLessThanOrEqual(1000);
    }
    expect(strings.string('s99')).toBe('s99');
  });

  it('gives a node one place, and each zone one without a node', () => {
    const strings = new Interner();
    const places = ['node-1 a', 'node-1 b', 'node-2 a', ' a', ' b', ' node-1'].map((text) => {
      const [node = '', zone = ''] = text.split(' ');
      const place = strings.place(node, zone);
      expect(place).toEqual({ node, zone });
      expect(strings.place(node, zone)).toBe(place);
      return place;
    });
    expect(strings.place('node-2', 'a')).toBe(places[2]);
    expect(strings.place('', 'b')).toBe(places[4]);
    const { bytes } = strings;
    strings.place('', 'a');
    expect(strings.bytes).toBe(bytes);
  });

  it('keeps nothing of long lists', () => {
    const strings = new Interner();
    const long = Array.from({ length: 2000 }, (_, port) => ({ name: `p${port}`, port }));
    expect(strings.records(long)).toEqual(long);
    expect(strings.list(long.map(({ name }) => name))).toHaveLength(2000);
    expect(strings.bytes).toBe(0);
  });
});

describe('lists that stay', () => {
  it('are one list when they hold the same records', () => {
    const strings = new Interner(1000);
    const ports = () => [{ name: 'http', port: 80 }];
    expect(strings.records(ports())).toBe(strings.records(ports()));
    expect(strings.records([{ name: 'http', port: 81 }])).not.toBe(strings.records(ports()));
    for (let port = 0; port < 5; port += 1) {
      expect(strings.records([{ port }])).toEqual([{ port }]);
    }
  });

  it('are not the list that they were made from, and one when empty', () => {
    const made = [1, 2];
    const kept = lasting(made);
    made.push(3);
    expect(kept).toEqual([1, 2]);
    expect(lasting([])).toBe(new Interner().records([]));
  });
});

describe('RateLimiter', () => {
  it('lets a burst through immediately and spaces later ones', async () => {
    const limiter = new RateLimiter(50, 3);
    const start = performance.now();
    const times: number[] = [];
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        await limiter.take(new AbortController().signal);
        times.push(performance.now() - start);
      }),
    );
    // Five requests beyond the burst at 50 a second.
    expect(times.at(-1)).toBeGreaterThan(95);
    expect(times).toHaveLength(8);
  });

  it('ends the waiting when it is aborted', async () => {
    const limiter = new RateLimiter(0.001, 1);
    const controller = new AbortController();
    await limiter.take(controller.signal);
    const waiting = limiter.take(controller.signal);
    controller.abort();
    await expect(waiting).rejects.toThrow();
  });
});

/** How many clients session affinity of sockets remembers. */
import fc from 'fast-check';
import { expect, it, onTestFinished, vi } from 'vitest';
import { Memories } from '../../../../src/modes/sockets/memory.ts';
import { host, pool } from './peers.ts';

const endpoints = pool(host(1, 1));

it('clients of many Service ports are bounded together, and the port with most forgets first', () => {
  const memories = new Memories(1000);
  const few = memories.join({ id: 'few' });
  few.remember('192.0.2.1', endpoints.key(0), 60);
  const ports = Array.from({ length: 50 }, (_, i) => memories.join({ id: `many ${i}` }));
  const client = (i: number): string => `10.0.${i >> 8}.${i & 0xff}`;
  for (let i = 0; i < 500; i += 1) {
    for (const port of ports) port.remember(client(i), endpoints.key(0), 60);
    const all = [few, ...ports].reduce((sum, { size }) => sum + size, 0);
    expect(all).toBeLessThanOrEqual(1000);
  }
  expect(few.recall(endpoints, '192.0.2.1')).toBe(0);
  for (const port of ports) {
    expect(port.recall(endpoints, client(0))).toBeUndefined();
    expect(port.recall(endpoints, client(499))).toBe(0);
  }
  for (let i = 0; i < 50; i += 1) memories.leave({ id: `many ${i}` });
  for (const port of ports) port.remember('192.0.2.2', endpoints.key(0), 60);
  for (let i = 0; i < 999; i += 1) few.remember(client(i), endpoints.key(0), 60);
  expect(few.size).toBe(1000);
});

it('a client gets the endpoint that it had last, of the two last ones that are there still', () => {
  const hosts = fc.uniqueArray(fc.integer({ min: 1, max: 5 }), { minLength: 1 });
  const step = fc.oneof(
    fc.record({ client: fc.constantFrom('a', 'b', 'c'), host: fc.integer({ min: 1, max: 5 }) }),
    fc.record({ failed: fc.constantFrom('a', 'b', 'c') }),
    fc.record({ kept: hosts, timeoutSeconds: fc.constantFrom(0, 60, 60, 60) }),
  );
  const listOf = (of: readonly number[]) => pool(...of.map((one) => host(1, one)));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 20 }), hosts, (steps, asked) => {
      const memory = new Memories(1000).join({ id: '' });
      const known = new Map<string, readonly number[]>();
      let allowed = [1, 2, 3, 4, 5];
      for (const one of steps) {
        if ('failed' in one) {
          memory.forget(one.failed);
          known.delete(one.failed);
        } else if ('client' in one) {
          if (!allowed.includes(one.host)) continue;
          memory.remember(one.client, listOf([one.host]).key(0), 60);
          const others = known.get(one.client)?.filter((other) => other !== one.host) ?? [];
          known.set(one.client, [one.host, ...others].slice(0, 2));
        } else {
          const { kept, timeoutSeconds } = one;
          allowed = timeoutSeconds > 0 ? kept : [];
          memory.retain({ id: '', timeoutSeconds, pools: kept.map((each) => listOf([each])) });
          for (const [client, all] of known) {
            const left = all.filter((each) => allowed.includes(each));
            if (left.length > 0) known.set(client, left);
            else known.delete(client);
          }
        }
        expect(memory.size).toBe(known.size);
        for (const client of ['a', 'b', 'c']) {
          const last = known.get(client)?.find((each) => asked.includes(each));
          const index = last === undefined ? undefined : asked.indexOf(last);
          expect(memory.recall(listOf(asked), client)).toBe(index);
        }
      }
    }),
  );
});

it('a client is remembered for the time of its Service', () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const memory = new Memories().join({ id: '' });
  memory.remember('192.0.2.1', endpoints.key(0), 60);
  vi.advanceTimersByTime(60_000);
  expect(memory.recall(endpoints, '192.0.2.1')).toBe(0);
  vi.advanceTimersByTime(1);
  expect(memory.recall(endpoints, '192.0.2.1')).toBeUndefined();
});

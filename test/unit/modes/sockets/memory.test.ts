/** How many clients session affinity of sockets remembers. */
import { expect, it } from 'vitest';
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

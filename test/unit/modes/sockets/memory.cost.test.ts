/** Session affinity of sockets, where a Service has very many endpoints. */
import { expect, it } from 'vitest';
import { Memory } from '../../../../src/modes/sockets/memory.ts';
import { EndpointList } from '../../../../src/net/endpoint-list.ts';
import { growth } from '../../state/steps-taken.ts';

function poolOf(size: number): EndpointList {
  const endpoints = Array.from({ length: size }, (_, i) => {
    return { address: Uint8Array.of(10, 244, i >> 8, i & 0xff), port: 8080 };
  });
  return EndpointList.of('IPv4', endpoints);
}

it('finding the endpoint of a client takes as long with many endpoints as with few', () => {
  const connections = (size: number): (() => void) => {
    const pool = poolOf(size);
    const memory = new Memory();
    memory.remember('192.0.2.1', pool.key(size - 1), 60);
    const recall = (): void => {
      for (let i = 0; i < 10; i += 1) expect(memory.recall(pool, '192.0.2.1')).toBe(size - 1);
    };
    // The first one makes an index of the pool.
    recall();
    return recall;
  };
  // It was 4 when each connection looked through the pool.
  expect(growth(connections, 500)).toBeLessThan(1.5);
});

/** Session affinity of sockets, where a Service has very many endpoints. */
import { expect, it } from 'vitest';
import { Memories } from '../../../../src/modes/sockets/memory.ts';
import { EndpointList } from '../../../../src/net/endpoint-list.ts';
import { growth } from '../../state/steps-taken.ts';

function poolOf(size: number): EndpointList {
  const endpoints = Array.from({ length: size }, (_, i) => {
    return { address: Uint8Array.of(10, 244, i >> 8, i & 0xff), port: 8080 };
  });
  return EndpointList.of('IPv4', endpoints);
}

/** Each has another endpoint: some endpoints collide in an index, and most do not. */
const clients = 400;

it('finding the endpoint of a client takes as long with many endpoints as with few', () => {
  const connections = (size: number): (() => void) => {
    const pool = poolOf(size);
    const memory = new Memories().join({ id: 'web' });
    const endpointOf = (client: number): number => Math.floor((client * size) / clients);
    for (let i = 0; i < clients; i += 1) {
      memory.remember(`192.0.2.${i}`, pool.key(endpointOf(i)), 60);
    }
    // The first one makes an index of the pool.
    expect(memory.recall(pool, '192.0.2.0')).toBe(0);
    return () => {
      for (let i = 0; i < clients; i += 1) {
        expect(memory.recall(pool, `192.0.2.${i}`)).toBe(endpointOf(i));
      }
    };
  };
  // It was 4 when each connection looked through the pool.
  expect(growth(connections, 500)).toBeLessThan(2);
});

it('an update of one more frontend of a Service port looks at no client', () => {
  const updates = (size: number): (() => void) => {
    const of = { id: 'web', timeoutSeconds: 60, pools: [poolOf(2)] };
    const memory = new Memories().join(of);
    for (let i = 0; i < size; i += 1) memory.remember(`client ${i}`, of.pools[0]!.key(i % 2), 60);
    const retained = { ...of, pools: [poolOf(1)] };
    memory.retain(retained);
    expect(memory.size).toBe(size / 2);
    return () => memory.retain(retained);
  };
  // It was 4 when each frontend had all clients looked at.
  expect(growth(updates, 500)).toBeLessThan(2);
});

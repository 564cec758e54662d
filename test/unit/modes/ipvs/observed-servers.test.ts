import { describe, expect, it } from 'vitest';
import type { ReplyOf } from '../../../../src/kernel/kernel.ts';
import { ObservedServers } from '../../../../src/modes/ipvs/observed-servers.ts';
import type { Family } from '../../../../src/net/address.ts';
import { EndpointList } from '../../../../src/net/endpoint-list.ts';

type Destination = ReplyOf<'destination'>;

function destination(address: Uint8Array, i: number): Destination {
  const numbers = {
    weight: i % 3,
    forwarding: i % 5,
    activeConnections: i,
    inactiveConnections: 1,
  };
  return { destination: address, destinationPort: 8000 + i, ...numbers } as Destination;
}

describe.each([
  ['IPv4', 4],
  ['IPv6', 16],
] as [Family, number][])('%s', (family, length) => {
  const all = Array.from({ length: 40 }, (_, i) =>
    destination(new Uint8Array(length).fill(200 + i), i),
  );
  const servers = new ObservedServers(family);
  for (const one of all) servers.add(one);

  it('returns the added servers, with the keys of an EndpointList', () => {
    const endpoints = all.map((one) => ({ address: one.destination, port: one.destinationPort }));
    const list = EndpointList.of(family, endpoints);
    const wanted = all.map(({ weight, forwarding, activeConnections }, i) => [
      list.key(i),
      { packed: list.packed(i), weight, forwarding, connections: activeConnections + 1 },
    ]);
    expect([...servers.entries()]).toEqual(wanted);
  });

  it('counts the connections of all', () => {
    expect(servers.connections).toBe(all.reduce((sum, one) => sum + one.activeConnections + 1, 0));
  });

  it('omits real servers of the other family', () => {
    const none = new ObservedServers(family);
    none.add(destination(new Uint8Array(20 - length), 1));
    expect([...none.entries()]).toEqual([]);
  });
});

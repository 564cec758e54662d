import { expect, it } from 'vitest';
import type { ReplyOf } from '../../../../src/kernel/kernel.ts';
import { ObservedServers } from '../../../../src/modes/ipvs/observed-servers.ts';
import { EndpointList } from '../../../../src/net/endpoint-list.ts';

it.each([
  ['IPv4', 4],
  ['IPv6', 16],
] as const)(
  'real servers of %s are returned and counted, without those of the other family',
  (family, length) => {
    const all = Array.from({ length: 40 }, (_, i) => ({
      ...{ destination: new Uint8Array(length).fill(200 + i), destinationPort: 8000 + i },
      ...{ weight: i % 3, forwarding: i % 5, activeConnections: i, inactiveConnections: 1 },
    }));
    const other = { ...all[0]!, destination: new Uint8Array(20 - length) };
    const servers = new ObservedServers(family);
    for (const one of [other, ...all]) servers.add(one as unknown as ReplyOf<'destination'>);
    const endpoints = all.map((one) => ({ address: one.destination, port: one.destinationPort }));
    const list = EndpointList.of(family, endpoints);
    const wanted = all.map(({ weight, forwarding, activeConnections }, i) => [
      list.key(i),
      { packed: list.packed(i), weight, forwarding, connections: activeConnections + 1 },
    ]);
    expect([...servers.entries()]).toEqual(wanted);
    expect(servers.connections).toBe((39 * 40) / 2 + 40);
  },
);

import { describe, expect, it } from 'vitest';
import type { Switchboard } from '../../../../src/modes/sockets/switchboard.ts';
import { Traffic } from '../../../../src/modes/sockets/traffic.ts';
import type { Count } from '../../../../src/modes/traffic-counts.ts';
import { rangesOf } from '../../../../src/net/address-ranges.ts';
import { noPause } from '../../../../src/time/pacer.ts';
import { cidr } from '../../state/build.ts';
import {
  askOnce,
  frontend,
  host,
  pool,
  port,
  switchboard,
  tcpEndpoint,
  UDPClient,
  udpEndpoint,
} from './peers.ts';

/** `connections`, an endpoint, or the reason of a refusal: how many. */
async function counts({ traffic }: Pick<Switchboard, 'traffic'>, family = 'IPv4' as const) {
  const found: Count[] = [];
  await traffic.read(family, noPause, (count) => found.push(count));
  return Object.fromEntries(
    found.map(({ of, count }) => {
      const what =
        of.kind === 'endpoint' ? of.endpoint : of.kind === 'refusals' ? of.reason : of.kind;
      return [what, count];
    }),
  );
}

describe('the traffic counters of sockets', () => {
  it('count connections, also by endpoint, while endpoints and frontends change', async () => {
    const [vip, a, b] = [host(41, 1), host(41, 2), host(41, 3)];
    await Promise.all([tcpEndpoint(a), tcpEndpoint(b)]);
    const board = switchboard();
    const before = frontend(vip, pool(a));
    await board.open(before);
    for (let i = 0; i < 3; i += 1) await askOnce(vip);
    board.update(frontend(vip, pool(b)));
    await askOnce(vip);
    board.close(before.id);
    await board.open(before);
    await askOnce(vip);
    expect(await counts(board)).toEqual({
      connections: 5,
      [`${a}:${port}`]: 4,
      [`${b}:${port}`]: 1,
    });
  });

  it('count a connection once, for the endpoint that answers', async () => {
    const [vip, gone, a] = [host(42, 1), host(42, 2), host(42, 3)];
    await tcpEndpoint(a);
    const board = switchboard();
    await board.open(frontend(vip, pool(gone, a)));
    for (let i = 0; i < 4; i += 1) expect(await askOnce(vip)).toBe(a);
    expect(await counts(board)).toEqual({ connections: 4, [`${a}:${port}`]: 4 });
  });

  it('count flows of datagrams', async () => {
    const [vip, a] = [host(43, 1), host(43, 2)];
    await udpEndpoint(a);
    const board = switchboard();
    await board.open(frontend(vip, pool(a), { protocol: 'UDP' }));
    for (let i = 0; i < 2; i += 1) {
      const client = new UDPClient(vip);
      expect([await client.ask(), await client.ask()]).toEqual([a, a]);
    }
    expect(await counts(board)).toEqual({ connections: 2, [`${a}:${port}`]: 2 });
  });

  it('count refusals by reason, and no connection for a client outside of source ranges', async () => {
    const [vip, local, a, outsider] = [host(44, 1), host(44, 2), host(44, 3), host(44, 4)];
    const board = switchboard();
    await board.open(frontend(vip, pool(a), { clients: rangesOf([cidr(`${host(44, 5)}/32`)]) }));
    const pools = { node: pool(a), pod: pool(a), outside: pool() };
    const networks = { hostAddresses: [], podCIDR: undefined };
    await board.open(frontend(local, pool(a), { pools, networks }));
    expect(await askOnce(vip, outsider)).toBe('reset');
    expect(await askOnce(vip, outsider)).toBe('reset');
    expect(await askOnce(local, outsider)).toBe('reset');
    expect(await counts(board)).toEqual({
      source_ranges: 2,
      connections: 1,
      no_local_endpoints: 1,
    });
  });

  it('name no address of a node port, which clients ask at any', async () => {
    const traffic = new Traffic();
    const one = frontend(host(46, 1), pool());
    for (const kind of ['clusterIP', 'nodePort'] as const) {
      traffic.connection({ ...one, id: kind, claimKind: kind });
    }
    const found: Count[] = [];
    await traffic.read('IPv4', noPause, (count) => found.push(count));
    expect(found.map(({ destination }) => destination.address)).toEqual([one.address, undefined]);
  });

  it('are as many as a node may need, and no more', async () => {
    const traffic = new Traffic();
    const one = frontend(host(46, 2), pool());
    for (let i = 0; i < 131_073; i += 1) traffic.connection({ ...one, id: String(i) });
    let found = 0;
    await traffic.read('IPv4', noPause, () => {
      found += 1;
    });
    expect(found).toBe(131_072);
  });

  it('drop the entries without traffic for longest above a limit', async () => {
    const traffic = new Traffic(2);
    const [first, second, third] = [1, 2, 3].map((n) => frontend(host(45, n), pool()));
    for (const one of [first!, second!, first!, third!, first!]) traffic.connection(one);
    const found: Count[] = [];
    await traffic.read('IPv4', noPause, (count) => found.push(count));
    expect(found.map(({ count }) => count)).toEqual([1, 3]);
  });
});

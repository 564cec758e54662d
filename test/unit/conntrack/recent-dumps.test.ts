import { beforeEach, describe, expect, it } from 'vitest';
import { RecentDumps } from '../../../src/conntrack/recent-dumps.ts';
import type { Protocol } from '../../../src/net/protocol.ts';
import { FakeConntrack } from '../../fake/conntrack.ts';
import { address } from '../state/build.ts';
import { ToyClock } from '../sync/double.ts';

let clock: ToyClock;
let conntrack: FakeConntrack;
let recent: RecentDumps;
/** What the kernel says of all entries; undefined: nothing. */
let count: number | undefined;

beforeEach(() => {
  clock = new ToyClock();
  conntrack = new FakeConntrack();
  count = undefined;
  recent = new RecentDumps({ clock, conntrack, count: () => count });
});

function connected(from: number, to: string): void {
  conntrack.add({ protocol: 'TCP', from: `172.16.0.9:${from}`, to });
}

async function connectionsTo(
  to: string | undefined,
  port = 80,
  protocol: Protocol = 'TCP',
): Promise<number> {
  const destination = { address: to === undefined ? undefined : address(to).bytes, port };
  const family = to?.includes('::') ? 'IPv6' : 'IPv4';
  const request = { family, protocol, state: 'any', zone: 0, destination } as const;
  return (await recent.dump(request)).entries.length;
}

describe('recent dumps', () => {
  it('answer the same request again for one second', async () => {
    connected(4001, '10.96.0.1:80');
    expect(await connectionsTo('10.96.0.1')).toBe(1);
    connected(4002, '10.96.0.1:80');
    await clock.pass(999);
    expect(await connectionsTo('10.96.0.1')).toBe(1);
    await clock.pass(1);
    expect(await connectionsTo('10.96.0.1')).toBe(2);
  });

  it('do not answer requests for another address, port or protocol', async () => {
    connected(4001, '10.96.0.1:80');
    connected(4002, '10.96.0.1:443');
    connected(4003, '10.96.0.2:80');
    connected(4004, '10.96.0.2:80');
    expect(await connectionsTo('10.96.0.1')).toBe(1);
    expect(await connectionsTo('10.96.0.2')).toBe(2);
    expect(await connectionsTo('10.96.0.1', 443)).toBe(1);
    expect(await connectionsTo('10.96.0.2', 80, 'UDP')).toBe(0);
  });

  it('are limited in number', async () => {
    await connectionsTo('10.96.0.1');
    connected(4001, '10.96.0.1:80');
    for (let i = 2; i <= 17; i += 1) await connectionsTo(`10.96.0.${i}`);
    expect(await connectionsTo('10.96.0.1')).toBe(1);
  });

  it('are not kept if they are large', async () => {
    for (let i = 0; i < 14_600; i += 1) connected(1024 + i, '10.96.0.1:80');
    expect(await connectionsTo('10.96.0.1')).toBe(14_600);
    connected(1023, '10.96.0.1:80');
    expect(await connectionsTo('10.96.0.1')).toBe(14_601);
  });

  it('answer for all addresses while there are few entries', async () => {
    count = 4096;
    connected(4001, '10.96.0.1:80');
    connected(4002, '10.96.0.1:443');
    connected(4003, '10.96.0.2:80');
    expect(await connectionsTo('10.96.0.1')).toBe(1);
    connected(4004, '10.96.0.2:80');
    expect(await connectionsTo('10.96.0.2')).toBe(1);
    expect(await connectionsTo(undefined, 80)).toBe(2);
    count = 4097;
    expect(await connectionsTo('10.96.0.2')).toBe(2);
  });

  it('are kept of as many entries of IPv6', async () => {
    count = 4096;
    const connect = (port: number) =>
      conntrack.add({ protocol: 'TCP', from: `[fd00::9]:${port}`, to: '[fd00:96::1]:80' });
    for (let port = 1; port <= count; port += 1) connect(port);
    expect(await connectionsTo('fd00:96::1')).toBe(count);
    connect(count + 1);
    expect(await connectionsTo('fd00:96::1')).toBe(count);
  });
});

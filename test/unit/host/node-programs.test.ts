import { describe, expect, it } from 'vitest';
import { NodePrograms } from '../../../src/host/node-programs.ts';
import type { Protocol } from '../../../src/net/protocol.ts';
import { address } from '../state/build.ts';
import { ToyClock } from '../sync/double.ts';
import { boundSockets } from './sockets.ts';

function rig(...sockets: readonly string[]) {
  const clock = new ToyClock();
  const now = { sockets, reads: 0, own: new Set<number>(), error: undefined as Error | undefined };
  const failures: string[] = [];
  const programs = new NodePrograms({
    clock,
    read: () => {
      now.reads += 1;
      if (now.error !== undefined) throw now.error;
      return boundSockets(...now.sockets);
    },
    own: () => now.own,
    host: { read: () => '32768\t60999' },
    failed: ({ message }) => failures.push(message),
  });
  const changed: string[] = [];
  const stop = programs.follow((keys) => changed.push(...[...keys].map(String)));
  const has = (at: string, port: number, protocol: Protocol = 'TCP', any = true): boolean =>
    programs.has({ protocol, address: address(at), port, any });
  return { clock, now, failures, programs, changed, stop, has };
}

describe('a port of the node', () => {
  it.each([
    ['tcp 192.0.2.1 80', '192.0.2.1', true, true],
    ['tcp 192.0.2.2 80', '192.0.2.1', false, false],
    ['tcp 0.0.0.0 80', '192.0.2.1', true, false],
    ['tcp 0.0.0.0 80', 'fd00::1', false, false],
    ['tcp :: 80', '192.0.2.1', false, false],
    ['tcp :: 80', 'fd00::1', true, false],
    ['tcp :: 80 both', '192.0.2.1', true, false],
    ['tcp :: 80 both', 'fd00::1', true, false],
    ['tcp 192.0.2.1 80 mapped', '192.0.2.1', true, true],
    ['tcp 0.0.0.0 80 mapped', '192.0.2.1', true, false],
    ['tcp fd00::1 80 both', 'fd00::1', true, true],
    ['tcp 0.0.0.0 81', '192.0.2.1', false, false],
    ['udp 0.0.0.0 80', '192.0.2.1', false, false],
  ])('%s has at %s a program: %s, without sockets of all addresses: %s', (socket, at, any, own) => {
    expect([rig(socket).has(at, 80), rig(socket).has(at, 80, 'TCP', false)]).toEqual([any, own]);
  });

  it('of UDP is not taken for one of a server where clients get their ports', () => {
    const sockets = [32_767, 32_768, 60_999, 61_000].map((port) => `udp 0.0.0.0 ${port}`);
    const { has } = rig(...sockets, 'udp 192.0.2.1 40000');
    const found = [32_767, 32_768, 60_999, 61_000, 40_000].map((port) =>
      has('192.0.2.1', port, 'UDP'),
    );
    expect(found).toEqual([true, false, false, true, true]);
    expect(rig('tcp 0.0.0.0 40000').has('192.0.2.1', 40_000)).toBe(true);
  });

  it('is not taken by sockets of this process', async () => {
    const { clock, has, now } = rig('tcp 192.0.2.1 80', 'tcp 192.0.2.1 81', 'tcp 192.0.2.1 81');
    now.own = new Set([1, 2]);
    expect([has('192.0.2.1', 80), has('192.0.2.1', 81)]).toEqual([false, true]);
    now.own = new Set([2]);
    await clock.pass(10_000);
    expect(has('192.0.2.1', 80)).toBe(true);
  });

  it('is looked at every ten seconds while anything was asked, and never before', async () => {
    const { clock, has, now, changed, stop } = rig();
    await clock.pass(60_000);
    expect(now.reads).toBe(0);
    expect(has('192.0.2.1', 80)).toBe(false);
    expect(has('192.0.2.1', 81)).toBe(false);
    expect(now.reads).toBe(1);
    now.sockets = ['tcp 0.0.0.0 80'];
    await clock.pass(9999);
    expect(changed).toEqual([]);
    await clock.pass(1);
    expect(changed).toEqual([String(address('192.0.2.1').key)]);
    expect(has('192.0.2.1', 80)).toBe(true);
    stop();
    const { reads } = now;
    await clock.pass(60_000);
    expect(now.reads).toBe(reads);
  });

  it('is kept for a program that begins again within a minute, and then free', async () => {
    const { clock, has, now, changed } = rig('tcp 0.0.0.0 80');
    expect(has('192.0.2.1', 80)).toBe(true);
    now.sockets = [];
    await clock.pass(50_000);
    now.sockets = ['tcp 0.0.0.0 80'];
    await clock.pass(10_000);
    now.sockets = [];
    await clock.pass(59_000);
    expect([changed, has('192.0.2.1', 80)]).toEqual([[], true]);
    await clock.pass(1000);
    expect([changed.length, has('192.0.2.1', 80)]).toEqual([1, false]);
  });

  it('stays what it was while the kernel does not show sockets, which is reported once', async () => {
    const { clock, failures, has, now, changed } = rig('tcp 0.0.0.0 80');
    expect(has('192.0.2.1', 80)).toBe(true);
    now.error = new Error('ENOBUFS');
    await clock.pass(120_000);
    expect([failures, changed, has('192.0.2.1', 80)]).toEqual([['ENOBUFS'], [], true]);
    now.error = undefined;
    await clock.pass(10_000);
    now.error = new Error('ENOENT');
    await clock.pass(10_000);
    expect(failures).toEqual(['ENOBUFS', 'ENOENT']);
  });

  it('is looked at for the last 10,000 places that were asked', async () => {
    const { clock, has, now, changed } = rig();
    const places = Array.from({ length: 10_001 }, (_, i) => `10.0.${i >> 8}.${i & 0xff}`);
    for (const place of places) has(place, 80);
    now.sockets = ['tcp 0.0.0.0 80'];
    await clock.pass(10_000);
    expect(new Set(changed).size).toBe(10_000);
    expect(changed).not.toContain(String(address(places[0]!).key));
  });
});

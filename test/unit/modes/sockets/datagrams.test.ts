import { Socket } from 'node:dgram';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { Datagrams } from '../../../../src/modes/sockets/datagrams.ts';
import { Descriptors } from '../../../../src/modes/sockets/descriptors.ts';
import { Switchboard } from '../../../../src/modes/sockets/switchboard.ts';
import { turnsUntil } from '../../turns.ts';
import { frontend, host, pool, UDPClient, udpEndpoint } from './peers.ts';

/** All may have 32 KiB, a frontend 16 KiB, a client 8 KiB. */
const memory = 4 * 1024 ** 2;

const [first, second, third] = [1, 2, 3].map((n) => frontend(host(47, n), pool(host(47, 9))));

/** How many of 100 datagrams of 1 KiB are sent; the kernel takes none of them. */
function sends(datagrams: Datagrams, of: typeof first, client: string): number {
  const queue = datagrams.queue({ frontend: of!, client });
  let count = 0;
  const send = (): void => {
    count += 1;
  };
  for (let i = 0; i < 100; i += 1) queue.send(1024, send);
  return count;
}

describe('datagrams that wait', () => {
  it('are bounded for a client, a frontend, and in all', () => {
    const datagrams = new Datagrams(memory);
    expect(sends(datagrams, first, 'a')).toBe(4);
    expect(sends(datagrams, first, 'a')).toBe(0);
    expect(sends(datagrams, second, 'a')).toBe(0);
    expect(sends(datagrams, first, 'b')).toBe(4);
    expect(datagrams.dropped).toEqual({ all: 0, frontend: 0, client: 392 });
    expect(sends(datagrams, first, 'c')).toBe(0);
    expect(datagrams.dropped.frontend).toBe(100);
    expect(sends(datagrams, second, 'c') + sends(datagrams, third, 'd')).toBe(8);
    expect(sends(datagrams, third, 'e')).toBe(0);
    expect(datagrams.dropped.all).toBe(100);
    expect(datagrams.used).toBe(datagrams.max.all);
    expect(new Datagrams(1024 ** 4).max.all).toBe(64 * 1024 ** 2);
  });

  it('make room when the kernel has taken them, and when their flow ends', () => {
    const datagrams = new Datagrams(memory);
    const queue = datagrams.queue({ frontend: first!, client: 'a' });
    const taken: (() => void)[] = [];
    for (let i = 0; i < 5; i += 1) queue.send(1024, (sent) => taken.push(sent));
    expect(taken.length).toBe(4);
    taken[0]!();
    queue.send(1024, (sent) => taken.push(sent));
    expect(taken.length).toBe(5);
    queue.close();
    for (const sent of taken.slice(1)) sent();
    expect(datagrams.used).toBe(0);
  });

  it('are dropped where an endpoint is sent more than the kernel takes', async () => {
    const [vip, a] = [host(48, 1), host(48, 2)];
    await udpEndpoint(a);
    const descriptors = new Descriptors(1024, undefined, memory);
    const board = new Switchboard(descriptors);
    onTestFinished(() => board.closeAll());
    const udp = { protocol: 'UDP', udpIdleTimeoutMs: 60_000 } as const;
    await board.open(frontend(vip, pool(a), udp));
    const client = new UDPClient(vip);
    expect(await client.ask()).toBe(a);
    // Sockets of flows take nothing: as one does whose link is slower than what it is to send.
    const held: (() => void)[] = [];
    const original = Socket.prototype.send;
    const spy = vi.spyOn(Socket.prototype, 'send').mockImplementation(function (
      this: Socket,
      ...args: unknown[]
    ) {
      const send = (): void => Reflect.apply(original, this, args);
      if (args.length === 2) held.push(send);
      else send();
    });
    onTestFinished(() => spy.mockRestore());
    const { datagrams } = descriptors;
    const fill = async (): Promise<void> => {
      const { client: before } = datagrams.dropped;
      for (let i = 0; datagrams.dropped.client === before; i += 1) {
        expect(i).toBeLessThan(100);
        expect(await client.mayAsk()).toBe('silence');
      }
      expect(datagrams.used).toBeGreaterThan(datagrams.max.client / 2);
    };
    await fill();
    // Its flow ends.
    board.update(frontend(vip, pool(), udp));
    expect(datagrams.used).toBe(0);
    held.length = 0;
    board.update(frontend(vip, pool(a), udp));
    await fill();
    spy.mockRestore();
    for (const send of held) send();
    await turnsUntil(() => datagrams.used === 0);
    await turnsUntil(async () => (await client.mayAsk()) === a);
  });
});

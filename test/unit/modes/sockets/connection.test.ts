import { syncBuiltinESMExports } from 'node:module';
import net, { Socket } from 'node:net';
import { expect, it, onTestFinished, vi } from 'vitest';
import { Connections, carry } from '../../../../src/modes/sockets/connection.ts';
import { quiet } from '../../sync/double.ts';
import { pool } from '../nftables/forwardings.ts';

/** A client for which endpoints are dialled; none answers. */
function carried() {
  const { connect } = net;
  const servers: Socket[] = [];
  net.connect = () => {
    const server = Object.assign(new Socket(), { connecting: true });
    servers.push(server);
    return server;
  };
  syncBuiltinESMExports();
  onTestFinished(() => {
    net.connect = connect;
    syncBuiltinESMExports();
  });
  const [client, tried] = [new Socket(), [] as number[]];
  client.on('error', () => {});
  carry(client, {
    choose: (count: number) => {
      tried.push(count);
      return { pool: pool(1), index: 0 };
    },
    leadsBack: () => false,
    connections: { add: (server: Socket) => server.on('error', () => {}) },
    claim: { giveBack() {} },
    watch: { add() {} },
    joined() {},
  } as never);
  return { client, tried, servers };
}

it('waits 250 ms for the first endpoint, twice as long for each after it, and resets after four', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const { client, tried } = carried();
  for (const [count, ms] of [250, 500, 1000, 2000].entries()) {
    await vi.advanceTimersByTimeAsync(ms - 1);
    await quiet();
    expect([tried.length, client.destroyed]).toEqual([count + 1, false]);
    await vi.advanceTimersByTimeAsync(1);
    await quiet();
  }
  expect([tried, client.destroyed]).toEqual([[0, 1, 2, 3], true]);
});

it('resets an endpoint that answers just after its client has gone', () => {
  const { client, servers } = carried();
  const [server] = servers;
  client.destroy();
  Object.assign(server!, { connecting: false }).emit('connect');
  expect(server!.destroyed).toBe(true);
});

it('a Service without connections has none to end', () => {
  expect(() => new Connections().endTo('ns/web/TCP', new Set([1]))).not.toThrow();
});

/** Sockets for node ports on loopback addresses, in addition to the rules of any mode. */
import { once } from 'node:events';
import { connect, createServer, type Server } from 'node:net';
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import {
  type LocalhostEvent,
  LocalhostListeners,
} from '../../../../src/modes/sockets/localhost.ts';
import type { Forwarding } from '../../../../src/state/types.ts';
import { freePort } from '../../free-port.ts';
import { ready, resolveOne, service, slice } from '../../state/build.ts';
import { turnsUntil } from '../../turns.ts';
import { port as endpointPort, host, tcpEndpoint } from './peers.ts';

const config = { family: 'IPv4', localDetector: { kind: 'none' } } as const;

let nodePort: number;
let events: LocalhostEvent[];
let listeners: LocalhostListeners;

beforeEach(async () => {
  nodePort = await freePort();
  events = [];
  listeners = new LocalhostListeners((event) => events.push(event));
  onTestFinished(() => listeners.close());
});

async function taking(port: number): Promise<Server> {
  const server = createServer().listen({ host: '127.0.0.1', port });
  await once(server, 'listening');
  return server;
}

function web(pods: readonly string[], fields: Parameters<typeof service>[0] = {}): Forwarding {
  const endpoints = Object.fromEntries(pods.map((pod) => [pod, ready]));
  const ports = [{ name: 'http', protocol: 'TCP', port: 80, nodePort }] as const;
  const slices = [
    slice(endpoints, { ports: [{ name: 'http', protocol: 'TCP', port: endpointPort }] }),
  ];
  return resolveOne(service({ type: 'NodePort', ports, ...fields }), slices);
}

async function changed(previous: Forwarding | undefined, next: Forwarding | undefined) {
  listeners.follower(config).changed(previous, next);
  await turnsUntil(() => listeners.idle);
}

/** Who answers, or the code of the error. */
async function ask(): Promise<string> {
  const client = connect({ host: '127.0.0.1', port: nodePort });
  try {
    await once(client, 'connect');
    client.write('who?');
    return String((await once(client, 'data'))[0]);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'ended';
  } finally {
    client.destroy();
  }
}

it('node ports on localhost follow changes of a Service', async () => {
  const [a, b] = [host(30, 1), host(30, 2)];
  await Promise.all([tcpEndpoint(a), tcpEndpoint(b)]);
  expect(await ask()).toBe('ECONNREFUSED');
  await changed(undefined, web([a]));
  expect(await ask()).toBe(a);
  expect(listeners.count('IPv4')).toBe(1);
  expect(listeners.describe(config, web([a]))).toEqual([`socket TCP 127.0.0.1 port ${nodePort}`]);
  await changed(web([a]), web([b]));
  expect(await ask()).toBe(b);
  await changed(web([b]), web([]));
  expect(await ask()).toBe('ECONNREFUSED');
  await changed(web([]), web([b]));
  await changed(web([b]), undefined);
  expect(await ask()).toBe('ECONNREFUSED');
  expect(listeners.count('IPv4')).toBe(0);
  expect(events).toEqual([]);
});

it('node ports on localhost have endpoints of other nodes, even with policy Local', async () => {
  const a = host(31, 1);
  await tcpEndpoint(a);
  await changed(undefined, web([a], { externalTrafficPolicy: 'Local' }));
  expect(await ask()).toBe(a);
});

it('node ports on localhost pass to another Service in any order of the changes', async () => {
  const [a, b] = [host(32, 1), host(32, 2)];
  await Promise.all([tcpEndpoint(a), tcpEndpoint(b)]);
  const other = web([b], { name: 'other' });
  await changed(undefined, web([a]));
  await changed(undefined, other);
  await changed(web([a]), undefined);
  expect(await ask()).toBe(b);
});

it('node ports on localhost report a port in use, and open it when it is free', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const a = host(33, 1);
  await tcpEndpoint(a);
  const taker = await taking(nodePort);
  listeners.follower(config).changed(undefined, web([a]));
  await new Promise((resolve) => setImmediate(resolve));
  expect(events).toMatchObject([
    {
      kind: 'refused',
      family: 'IPv4',
      servicePort: { name: 'web' },
      message: `listen on TCP 127.0.0.1:${nodePort}: address already in use (EADDRINUSE)`,
      isKnown: false,
    },
  ]);
  taker.close();
  await once(taker, 'close');
  vi.advanceTimersByTime(10_000);
  await new Promise((resolve) => setImmediate(resolve));
  expect(events[1]).toMatchObject({ kind: 'restored', servicePort: { name: 'web' } });
  expect(await ask()).toBe(a);
});

it('node ports on localhost stay open while an engine takes over, and close if it has none', async () => {
  const a = host(34, 1);
  await tcpEndpoint(a);
  await changed(undefined, web([a]));
  listeners.begin('IPv4', true);
  expect(await ask()).toBe(a);
  await changed(undefined, web([a]));
  listeners.follower(config).settled();
  expect(await ask()).toBe(a);
  listeners.begin('IPv4', true);
  listeners.follower(config).settled();
  expect(await ask()).toBe('ECONNREFUSED');
  await changed(undefined, web([a]));
  listeners.begin('IPv6', false);
  expect(await ask()).toBe(a);
  listeners.begin('IPv4', false);
  expect(await ask()).toBe('ECONNREFUSED');
});

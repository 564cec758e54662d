/** What programs make of a greeting, and causes of silence; the kernel tests have real ones. */
import { once } from 'node:events';
import { createServer as createHTTP } from 'node:http';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { createServer as createTLS } from 'node:tls';
import { describe, expect, it, onTestFinished } from 'vitest';
import { waitingAt } from '../../../src/host/tcp-sockets.ts';
import { parseAddress } from '../../../src/net/address.ts';
import { greet } from '../../../src/tools/check/greeting.ts';
import { causeOf } from '../../../src/tools/check/trying.ts';
import { thisMachine } from '../../../src/tools/preflight/machine.ts';
import { createAuthority } from '../../fake/api-server-certificate.ts';

const host = '127.0.0.1';

async function greeted(server: Server, given: Partial<Parameters<typeof greet>[1]> = {}) {
  server.listen(0, host);
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const usual = { sizeBytes: 100, timeoutMs: 10_000, silenceMs: 1, machine: thisMachine() };
  return greet({ address: host, family: 'IPv4', port }, { ...usual, ...given });
}

const whole = { isReset: false, unacknowledged: 0 };

describe('a greeting', () => {
  it('finds TLS, by a handshake or by an alert', async () => {
    const { certificate: cert, key } = createAuthority().issue('server', [host]);
    expect(await greeted(createTLS({ cert, key }))).toEqual({ speaks: 'TLS', ...whole });
    const only13 = createTLS({ cert, key, minVersion: 'TLSv1.3' });
    expect(await greeted(only13)).toEqual({ speaks: 'TLS', ...whole });
  });

  it('finds HTTP, and what begins by itself', async () => {
    expect(await greeted(createHTTP() as Server)).toEqual({ speaks: 'HTTP', ...whole });
    const heard: Buffer[] = [];
    const banner = createServer((socket) => {
      socket.on('data', (bytes) => heard.push(bytes)).on('error', () => {});
      socket.write('220 ready\r\n');
    });
    expect(await greeted(banner, { silenceMs: 10_000 })).toEqual({ speaks: 'other', ...whole });
    expect(heard).toEqual([]);
  });

  it('finds a program that resets connections before it was sent anything', async () => {
    const resets = createServer((socket) => void socket.resetAndDestroy());
    expect(await greeted(resets, { silenceMs: 10_000 })).toMatchObject({ isReset: true });
  });

  it('has the length that is asked for, and a blank line follows on another connection', async () => {
    const heard: Buffer[] = [];
    const listens = createServer((socket) => {
      const parts: Buffer[] = [];
      socket.on('data', (bytes) => {
        parts.push(bytes);
        const all = Buffer.concat(parts);
        if (all.length < 1400 && all[0] === 0x16) return;
        heard.push(all);
        socket.end();
      });
    });
    const found = await greeted(listens, { sizeBytes: 1400 });
    expect(found).toEqual({ speaks: 'nothing', ...whole });
    expect(heard.map(({ length }) => length)).toEqual([1400, 4]);
    expect(heard[0]!.toString('hex', 0, 11)).toBe('1603010573010005' + '6f0303');
  });
});

const hop = (text: string, device: string) => parseAddress(text)!.latin1 + device;
const dead = new Set([
  ...[hop('192.168.10.99', 'eth0'), hop('10.244.1.77', 'cni0'), hop('fe80::99', 'eth0')],
]);
const route = [
  'Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask',
  'eth0\t00000000\t620AA8C0\t0003\t0\t0\t0\t00000000',
  'cni0\t0001F40A\t00000000\t0001\t0\t0\t0\t00FFFFFF',
  'eth0\t0008F40A\t630AA8C0\t0003\t0\t0\t0\t00FFFFFF',
  'eth0\t0708F40A\t620AA8C0\t0003\t0\t0\t0\tFFFFFFFF',
].join('\n');
const zero = '0'.repeat(32);
const ipv6Route = `fd${zero.slice(2)} 08 ${zero} 00 fe80${zero.slice(6)}99 400 1 0 3 eth0`;
const tcp = `  sl  local_address rem_address   st tx_queue rx_queue
   0: 010AA8C0:1F90 00000000:0000 0A 00000000:00000003 00:00000000
   1: 010AA8C0:1F90 020AA8C0:9C40 01 00000000:00000009 00:00000000
   2: 00000000:1F91 00000000:0000 0A 00000000:00000002 00:00000000`;
const files: Readonly<Record<string, string>> = {
  '/proc/net/route': route,
  '/proc/net/ipv6_route': ipv6Route,
  '/proc/net/tcp': tcp,
};
const machine = { read: (path: string) => files[path] };
const own = parseAddress('192.168.10.1')!;

describe('the cause of silence', () => {
  it.each([
    ['10.244.8.8', 'its next hop 192.168.10.99 does not answer on eth0'],
    ['10.244.8.7', undefined],
    ['203.0.113.9', undefined],
    ['10.244.1.77', 'no machine has its address on cni0'],
    ['10.244.1.78', undefined],
    ['fd00::1', 'its next hop fe80::99 does not answer on eth0'],
    ['2001:db8::1', undefined],
  ])('of %s is found among neighbours and routes: %s', (text, cause) => {
    const found = causeOf(machine, { address: parseAddress(text)!, port: 80 }, [own], dead);
    expect(found?.replace(/ \(ip neigh .*/, '')).toBe(cause);
  });

  it('is a queue of connections, where a program of this machine accepts none', () => {
    const cause = causeOf(machine, { address: own, port: 8080 }, [own], dead);
    expect(cause).toBe('its accept queue is full: 3 connections wait for its program');
    expect(causeOf(machine, { address: own, port: 8082 }, [own], dead)).toBeUndefined();
    expect(waitingAt(machine, own, 8081)).toBe(2);
    expect(waitingAt(machine, parseAddress('192.168.10.2')!, 8080)).toBe(0);
  });
});

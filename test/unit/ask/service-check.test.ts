/** How the command is asked, and what it makes of answers; the kernel tests open connections. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { isFine, reach, routesTo } from '../../../src/host/reach.ts';
import { type Running, started, web } from '../agent/running.ts';
import { freePort } from '../free-port.ts';
import { quiet } from '../sync/double.ts';
import { said, saidAt } from './asking.ts';

/** No process answers there. */
const port = 1;

describe('fairlead service check', () => {
  let app: Running | undefined;

  afterEach(() => app?.stop());

  it.each([
    [[], 'an argument is missing'],
    [['web', 'more'], 'unexpected argument "more"'],
    [['a/b/c'], '"a/b/c" is not [NAMESPACE/]NAME'],
    [['web', '--timeout=5'], '--timeout: time: missing unit in duration "5"'],
    [['web', '--timeout=0s'], '--timeout 0s is not more than 0s and at most 10s'],
    [['web', '--timeout=10001ms'], '--timeout 10001ms is not more than 0s and at most 10s'],
    [['web', '-o', 'wide'], 'must be one of json, jsonpath=TEMPLATE'],
  ])('%j is rejected: %s', async (args, reason) => {
    const { code, stderr, stdout } = await saidAt(port, 'service', 'check', ...args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(reason);
  });

  it('requires the running process, for endpoints', async () => {
    const { code, stderr } = await saidAt(port, 'service', 'check', 'web', '--timeout=10s');
    expect([code, stderr]).toEqual([3, expect.stringMatching(/^Error: cannot reach /)]);
  });

  it('opens no connection if the Service does not exist', async () => {
    app = await started('--manifests=/anywhere', '--proxy-mode=nftables');
    app.source.say(...web);
    app.source.listed('services', 'endpointslices', 'nodes', 'servicecidrs');
    await quiet();
    const { code, stderr } = await said(app, 'service', 'check', 'ns/nosuch');
    expect([code, stderr]).toEqual([1, expect.stringContaining('serves no Service ns/nosuch')]);
  });
});

describe('a connection attempt of service check', () => {
  it.each(['TCP', 'UDP'] as const)('of %s to a port without a listener is refused', async (of) => {
    const to = { address: '127.0.0.1', family: 'IPv4', port: await freePort() } as const;
    const found = await reach(of, to, 10_000);
    expect(found).toMatchObject({ answer: 'refused', sourcePort: expect.any(Number) });
    expect(isFine(found!.answer)).toBe(false);
  });

  it('asks a question where servers of DNS listen, and sends an empty datagram elsewhere', async () => {
    // No other process has this address.
    const { pid } = process;
    const host = `127.${64 + (pid >> 16)}.${(pid >> 8) & 0xff}.${pid & 0xff}`;
    const heard = async (port: number): Promise<readonly [string, string]> => {
      const server = createSocket('udp4').bind(port, host);
      onTestFinished(() => void server.close());
      await once(server, 'listening');
      let datagram = '';
      server.on('message', (bytes, from) => {
        datagram = bytes.toString('hex');
        server.send('answer', from.port, from.address);
      });
      const to = { address: host, family: 'IPv4', port: server.address().port } as const;
      return [(await reach('UDP', to, 10_000))!.answer, datagram];
    };
    expect(await heard(0)).toEqual(['answered', '']);
    // Flags: recursion is desired; one question: the root, NS, IN.
    expect(await heard(5353)).toEqual(['answered', '0001010000010000000000000000020001']);
  });

  it('of SCTP is not supported', async () => {
    const to = { address: '127.0.0.1', family: 'IPv4', port: 1 } as const;
    expect(await reach('SCTP', to, 10_000)).toBeUndefined();
  });

  it('that only finds routes finds those to the machine itself, also after a refused one', async () => {
    // A socket without SO_BROADCAST may not be connected to this address.
    const addresses = ['127.0.0.1', '255.255.255.255', '127.0.0.2'];
    expect(await routesTo(addresses, 'IPv4')).toEqual(['found', 'prohibited', 'found']);
    expect(await routesTo([], 'IPv6')).toEqual([]);
  });
});

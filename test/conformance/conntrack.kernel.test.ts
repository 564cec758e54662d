/** Conntrack through the addon, with conntrack(8) as the second reader. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { ConntrackEvent } from '../../src/conntrack/events.ts';
import { ConntrackReconciler } from '../../src/conntrack/reconciler.ts';
import { loadAddon } from '../../src/kernel/addon.ts';
import { type ConntrackRequest, openConntrack } from '../../src/kernel/conntrack.ts';
import { ConntrackEntries, IPS } from '../../src/kernel/conntrack-entries.ts';
import { conntrackReplies, conntrackRequests } from '../../src/kernel/conntrack-ops.ts';
import { replies } from '../../src/kernel/ops.ts';
import { RecordWriter, readRecords } from '../../src/kernel/records.ts';
import { FrontendsInForce } from '../../src/state/frontends-in-force.ts';
import { systemClock } from '../../src/time/clock.ts';
import { dns } from '../unit/conntrack/build.ts';
import { address } from '../unit/state/build.ts';
import {
  conntrackOf,
  createNetwork,
  listed,
  serverPort,
  startClient,
  startServers,
  texts,
} from './conntrack-network.ts';
import { createNamespace, type Namespace } from './namespace.ts';

const udp: ConntrackRequest = { family: 'IPv4', protocol: 'UDP', state: 'any', zone: 0 };

/** Translates VIP:53 of the family to a server. */
function translation(vip: string, server: string): string {
  const [family, target] = vip.includes(':') ? ['ip6', `[${server}]`] : ['ip', server];
  return `
    add table ${family} lab
    add chain ${family} lab pre { type nat hook prerouting priority dstnat; }
    flush chain ${family} lab pre
    add rule ${family} lab pre ${family} daddr ${vip} udp dport 53 dnat to ${target}:${serverPort}
  `;
}

interface Made {
  readonly protocol?: 'udp' | 'tcp' | 'sctp';
  readonly from: string;
  readonly to: string;
  readonly options?: readonly string[];
}

/** Makes an entry as conntrack(8) does. */
async function make(namespace: Namespace, entry: Made): Promise<void> {
  const { protocol = 'udp', from, to, options = [] } = entry;
  const [source, sourcePort] = split(from);
  const [destination, port] = split(to);
  const tuple = ['-s', source, '-d', destination, '--sport', sourcePort, '--dport', port];
  await namespace.run('conntrack', ['-I', '-p', protocol, ...tuple, '-t', '300', ...options]);
}

function split(text: string): [string, string] {
  const colon = text.lastIndexOf(':');
  return [text.slice(0, colon), text.slice(colon + 1)];
}

describe('a conntrack dump', () => {
  it.each([
    ['IPv4', '10.96.0.10', '10.2.0.2', '10.2.0.1'],
    ['IPv6', 'fd96::10', 'fd02::2', 'fd02::1'],
  ] as const)('shows real %s flows as conntrack(8) does', async (family, vip, to, node) => {
    const network = await createNetwork();
    await startServers(network);
    await network.node.run('nft', ['-f', '-'], translation(vip, to));
    const answered = await startClient(network, 4001, vip, 53);
    expect(await answered()).toBe(to);
    const unanswered = await startClient(network, 4002, node, 9);
    expect(await unanswered(500)).toBe('silence');

    const request = { ...udp, family };
    const { entries, complete } = await network.conntrack.dump(request);
    expect(complete).toBe(true);
    const expected = await listed(network.node, 'UDP', family === 'IPv4' ? 'ipv4' : 'ipv6');
    expect(expected).toHaveLength(2);
    expect(texts(entries)).toEqual(expected);

    const only = (await network.conntrack.dump({ ...request, state: 'unanswered' })).entries;
    expect([only.length, only.port(0, 'originalSource')]).toEqual([1, 4002]);
    const [index] = entries.port(0, 'originalSource') === 4001 ? [0] : [1];
    expect(entries.status(index) & (IPS.SEEN_REPLY | IPS.DST_NAT | IPS.DYING)).toBe(
      IPS.SEEN_REPLY | IPS.DST_NAT,
    );
  });

  it('contains only the requested protocol, zone and destination', async () => {
    const namespace = await createNamespace();
    const from = '10.0.0.1:5000';
    await make(namespace, { from, to: '10.96.0.10:53' });
    await make(namespace, { from, to: '10.96.0.10:54' });
    await make(namespace, { from, to: '10.96.0.11:53' });
    await make(namespace, { from, to: '10.96.0.10:53', options: ['-w', '7'] });
    await make(namespace, { from, to: '10.96.0.12:53', options: ['--orig-zone', '7'] });
    const tcp = ['--state', 'SYN_SENT'];
    await make(namespace, { protocol: 'tcp', from, to: '10.96.0.10:53', options: tcp });
    const sctp = ['--state', 'COOKIE_WAIT', '--orig-vtag', '1', '--reply-vtag', '2'];
    await make(namespace, { protocol: 'sctp', from, to: '10.96.0.10:53', options: sctp });
    const conntrack = conntrackOf(namespace);
    const destinations = async (request: Partial<ConntrackRequest>): Promise<string[]> => {
      const { entries } = await conntrack.dump({ ...udp, ...request });
      return texts(entries).map((text) => `${text.slice(0, 4).trim()} ${text.split(/[ ,]/)[3]}`);
    };
    const [ten, eleven] = ['10.96.0.10', '10.96.0.11'].map((text) => address(text).bytes);
    expect(await destinations({})).toEqual([
      'UDP 10.96.0.10:53',
      'UDP 10.96.0.10:54',
      'UDP 10.96.0.11:53',
    ]);
    expect(await destinations({ zone: 7 })).toEqual(['UDP 10.96.0.10:53']);
    expect(await destinations({ protocol: 'TCP' })).toEqual(['TCP 10.96.0.10:53']);
    expect(await destinations({ protocol: 'SCTP' })).toEqual(['SCTP 10.96.0.10:53']);
    expect(await destinations({ family: 'IPv6' })).toEqual([]);
    expect(await destinations({ destination: { address: ten, port: 54 } })).toEqual([
      'UDP 10.96.0.10:54',
    ]);
    expect(await destinations({ destination: { address: eleven, port: 0 } })).toEqual([
      'UDP 10.96.0.11:53',
    ]);
    expect(await destinations({ destination: { address: undefined, port: 53 } })).toEqual([
      'UDP 10.96.0.10:53',
      'UDP 10.96.0.11:53',
    ]);
  });

  it('can be limited to an IPv6 address', async () => {
    const namespace = await createNamespace();
    for (const to of ['fd96::10:53', 'fd96::11:53', 'fd96::10:54']) {
      await make(namespace, { from: 'fd00::1:5000', to });
    }
    const destination = { address: address('fd96::10').bytes, port: 53 };
    const dump = conntrackOf(namespace).dump({ ...udp, family: 'IPv6', destination });
    const { entries } = await dump;
    expect(Array.from({ length: entries.length }, (_, i) => entries.text(i))).toEqual([
      'UDP [fd00::1]:5000 > [fd96::10]:53, reply [fd96::10]:53 > [fd00::1]:5000',
    ]);
  });

  it('of a namespace that does not exist rejects with its path', async () => {
    const conntrack = openConntrack({ netns: '/run/netns/fairlead-absent' });
    onTestFinished(() => conntrack.close());
    await expect(conntrack.dump(udp)).rejects.toMatchObject({
      name: 'KernelError',
      operation: 'conntrack.dump',
      subject: '/run/netns/fairlead-absent',
      code: 'ENOENT',
    });
  });
});

describe('a conntrack deletion', () => {
  it.each([
    ['IPv4', '10.0.0.1', '10.96.0.10'],
    ['IPv6', 'fd00::1', 'fd96::10'],
  ] as const)('deletes only the requested %s entry', async (family, from, to) => {
    const namespace = await createNamespace();
    const listFamily = family === 'IPv4' ? 'ipv4' : 'ipv6';
    for (const port of [5000, 5001, 5002]) {
      await make(namespace, { from: `${from}:${port}`, to: `${to}:53` });
    }
    const conntrack = conntrackOf(namespace);
    const { entries } = await conntrack.dump({ ...udp, family });
    const before = await listed(namespace, 'UDP', listFamily);
    const one = entries.slice(1, 2);
    expect(await conntrack.delete(one)).toEqual({ deleted: 1, gone: 0, failures: [] });
    const [gone] = texts(one);
    expect(await listed(namespace, 'UDP', listFamily)).toEqual(
      before.filter((text) => text !== gone),
    );
  });

  it('of a missing entry is a success, and the others are deleted', async () => {
    const namespace = await createNamespace();
    for (const port of [5000, 5001, 5002]) {
      await make(namespace, { from: `10.0.0.1:${port}`, to: '10.96.0.10:53' });
    }
    const conntrack = conntrackOf(namespace);
    const { entries } = await conntrack.dump(udp);
    await conntrack.delete(entries.slice(0, 1));
    expect(await conntrack.delete(entries)).toEqual({ deleted: 2, gone: 1, failures: [] });
    expect(await listed(namespace, 'UDP')).toEqual([]);
    expect(await conntrack.delete(entries)).toEqual({ deleted: 0, gone: 3, failures: [] });
  });

  it('ignores a later entry with the same tuples', async () => {
    const namespace = await createNamespace();
    await make(namespace, { from: '10.0.0.1:5000', to: '10.96.0.10:53' });
    const conntrack = conntrackOf(namespace);
    const { entries } = await conntrack.dump(udp);
    const bytes = Uint8Array.from(entries.bytes);
    bytes[bytes.length - 4]! ^= 1;
    const earlier = new ConntrackEntries('IPv4', bytes);
    expect(await conntrack.delete(earlier)).toEqual({ deleted: 0, gone: 1, failures: [] });
    expect(await listed(namespace, 'UDP')).toHaveLength(1);
  });

  it('deletes the entry in its zone', async () => {
    const namespace = await createNamespace();
    const entry = { from: '10.0.0.1:5000', to: '10.96.0.10:53' };
    await make(namespace, entry);
    await make(namespace, { ...entry, options: ['-w', '7'] });
    const conntrack = conntrackOf(namespace);
    const { entries } = await conntrack.dump({ ...udp, zone: 7 });
    expect(await conntrack.delete(entries)).toEqual({ deleted: 1, gone: 0, failures: [] });
    expect(texts((await conntrack.dump(udp)).entries)).toEqual(await listed(namespace, 'UDP'));
    expect((await conntrack.dump({ ...udp, zone: 7 })).entries.length).toBe(0);
  });

  it('without entries deletes nothing', async () => {
    const namespace = await createNamespace();
    await make(namespace, { from: '10.0.0.1:5000', to: '10.96.0.10:53' });
    const none = new ConntrackEntries('IPv4', new Uint8Array(0));
    expect(await conntrackOf(namespace).delete(none)).toEqual({
      deleted: 0,
      gone: 0,
      failures: [],
    });
    expect(await listed(namespace, 'UDP')).toHaveLength(1);
  });
});

describe('a large conntrack table', () => {
  /** Sends one datagram to each port from 1 to argv[1]. */
  const blaster = `
    const dgram = require('node:dgram');
    const socket = dgram.createSocket('udp4');
    const last = Number(process.argv[1]);
    const send = (port) => {
      if (port > last) return socket.close();
      for (const end = Math.min(last, port + 99); port < end; port += 1) {
        socket.send('?', port, '10.99.0.2', () => {});
      }
      socket.send('?', port, '10.99.0.2', () => send(port + 1));
    };
    socket.bind(4000, () => send(1));
  `;

  it('of 50,000 entries is dumped completely, filtered, and deleted in one call', async () => {
    const count = 50_000;
    const namespace = await createNamespace();
    const links = [
      'link add eth0 type veth peer name eth1',
      'address add 10.99.0.1/24 dev eth0',
      'link set eth0 up',
      'link set eth1 up',
      'neighbour add 10.99.0.2 lladdr 02:00:00:00:00:01 dev eth0',
    ];
    for (const link of links) await namespace.run('ip', link.split(' '));
    // A busy machine may take longer to send all than the kernel remembers one: 30 s.
    await namespace.run('sysctl', ['-qw', 'net.netfilter.nf_conntrack_udp_timeout=3600']);
    // Conntrack tracks connections of a namespace only while some rule needs it.
    const rules = 'add table ip t; add chain ip t c { type filter hook output priority 0; };';
    await namespace.run('nft', [`${rules} add rule ip t c ct state new accept`]);
    await namespace.run(process.execPath, ['-e', blaster, String(count)]);
    expect((await namespace.run('conntrack', ['-C'])).trim()).toBe(String(count));

    const conntrack = conntrackOf(namespace);
    const { entries, complete } = await conntrack.dump(udp);
    expect(complete).toBe(true);
    expect(entries.length).toBe(count);
    const ports = new Set(
      Array.from({ length: count }, (_, i) => entries.port(i, 'originalDestination')),
    );
    expect([ports.size, ports.has(1), ports.has(count)]).toEqual([count, true, true]);
    const destination = { address: address('10.99.0.2').bytes, port: 777 };
    const narrow = (await conntrack.dump({ ...udp, destination })).entries;
    expect([narrow.length, narrow.text(0)]).toEqual([
      1,
      'UDP 10.99.0.1:4000 > 10.99.0.2:777, reply 10.99.0.2:777 > 10.99.0.1:4000',
    ]);
    const part = entries.filter((i) => entries.port(i, 'originalDestination') > 100);
    expect(await conntrack.delete(part)).toEqual({ deleted: count - 100, gone: 0, failures: [] });
    expect((await namespace.run('conntrack', ['-C'])).trim()).toBe('100');
  });
});

describe('the addon with an invalid conntrack request', () => {
  const { Socket } = loadAddon();
  const schema = { ...conntrackReplies, dumped: replies.dumped, failed: replies.failed } as const;

  async function answer(namespace: Namespace, buffer: Uint8Array) {
    const socket = new Socket({ netns: namespace.path });
    const records = [...readRecords(schema, await socket.submit(buffer))];
    socket.close();
    return records;
  }

  it('rejects it, and deletes nothing', async () => {
    const namespace = await createNamespace();
    await make(namespace, { from: '10.0.0.1:5000', to: '10.96.0.10:53' });
    const { entries } = await conntrackOf(namespace).dump(udp);
    const deletion = (family: number, bytes: Uint8Array): Uint8Array => {
      const writer = new RecordWriter(conntrackRequests);
      writer.write('conntrackDelete', { family, entries: bytes });
      return writer.finish();
    };
    const whole = deletion(2, entries.bytes);
    for (const [buffer, message] of [
      [deletion(2, entries.bytes.subarray(1)), 'conntrackDelete.entries ends within an entry'],
      [deletion(0, entries.bytes), 'conntrackDelete.family is neither IPv4 nor IPv6'],
      [Buffer.concat([whole, whole]), 'request.buffer contains more than one request'],
    ] as const) {
      expect(await answer(namespace, buffer)).toMatchObject([
        { kind: 'failed', errno: 22, message },
      ]);
    }
    expect(await listed(namespace, 'UDP')).toHaveLength(1);
    expect(await answer(namespace, whole)).toMatchObject([{ kind: 'conntrackDeleted' }]);
    expect(await listed(namespace, 'UDP')).toEqual([]);
  });
});

describe('a flow whose endpoint is removed', () => {
  it.each([
    ['IPv4', '10.96.0.10', '10.2.0.2', '10.2.0.3'],
    ['IPv6', 'fd96::10', 'fd02::2', 'fd02::3'],
  ] as const)('moves to another one (%s)', async (family, vip, first, second) => {
    const network = await createNetwork();
    await startServers(network);
    await network.node.run('nft', ['-f', '-'], translation(vip, first));
    const ask = await startClient(network, 4001, vip, 53);
    expect(await ask()).toBe(first);
    const fields = { clusterIPs: [vip], target: serverPort };
    const before = dns([first, second], fields);
    const after = dns([second], fields);
    const events: ConntrackEvent[] = [];
    const reconciler = new ConntrackReconciler({
      inForce: new FrontendsInForce(family),
      conntrack: network.conntrack,
      clock: systemClock,
      observer: (event) => events.push(event),
      localAddresses: () => [],
    });
    onTestFinished(() => reconciler.stop());
    const passes = async (count: number): Promise<void> => {
      for (let i = 0; i < 3000 && events.length < count; i += 1) await sleep(10);
      expect(events).toHaveLength(count);
    };

    reconciler.changed(undefined, before);
    reconciler.settled({ nodePortAddresses: 'all' });
    await passes(1);
    expect(events[0]).toMatchObject({ kind: 'reconciled', examined: 1, deleted: { length: 0 } });
    // The rules lead elsewhere by now, but the flow keeps its translation.
    await network.node.run('nft', ['-f', '-'], translation(vip, second));
    expect(await ask()).toBe(first);

    reconciler.moving();
    reconciler.changed(before, after);
    reconciler.settled({ nodePortAddresses: 'all' });
    await passes(2);
    expect(events[1]).toMatchObject({ kind: 'reconciled', examined: 1, deleted: { length: 1 } });
    expect(await ask()).toBe(second);
  });
});

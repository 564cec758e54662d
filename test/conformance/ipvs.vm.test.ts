/** IPVS of a real kernel, with ipvsadm(8) as independent reader and writer. */
import { expect, test } from 'vitest';
import { IP_VS_CONN_F, IP_VS_SVC_F } from '../../src/kernel/ipvs-ops.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import type { KernelOp } from '../../src/kernel/ops.ts';
import { formatAddress } from '../../src/net/address.ts';
import { FakeKernel } from '../fake/kernel.ts';
import { hangsMs } from '../lab/pace.ts';
import { createKernel, type Namespace } from './namespace.ts';
import { applied, batch, dumped, noBytes } from './ops.ts';
import {
  AF,
  addAddresses,
  addDestination,
  addService,
  deleteDestination,
  deleteService,
  ipvsCases,
  readIpvs,
  recordSingle,
  setDestination,
  setService,
  virtualService,
} from './single-cases.ts';

/** The kernel accepts IPv4 destinations only while `lo` is up. */
async function createIpvs(options = {}): Promise<{ kernel: Kernel; namespace: Namespace }> {
  const made = await createKernel(options);
  await made.namespace.run('ip', ['link', 'set', 'lo', 'up']);
  return made;
}

/** The sorted lines of `ipvsadm -Sn`, without trailing blanks. */
async function saved(namespace: Namespace): Promise<string[]> {
  const output = await namespace.run('ipvsadm', ['-Sn']);
  return output
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .sort();
}

const everything = { family: 0, protocol: 0, address: noBytes, port: 0 } as const;
const web = 'tcp 10.96.0.10:80';
const web6 = 'tcp [fd96::10]:80';

test.for(ipvsCases)('$title, and the fake kernel does the same', async (story) => {
  const { kernel } = await createIpvs();
  const real = await recordSingle(kernel, story, readIpvs);
  expect(real.outcomes).toEqual(story.steps.map(([, outcome]) => outcome));
  expect(await recordSingle(new FakeKernel(), story, readIpvs)).toEqual(real);
});

test('ipvsadm reads what was written: schedulers, flags, persistence, forwarding, weights', async () => {
  const { kernel, namespace } = await createIpvs();
  const persistent = { flags: IP_VS_SVC_F.PERSISTENT, timeoutSeconds: 600 };
  await applied(
    kernel,
    addService(web, { scheduler: 'wrr' }),
    addDestination(web, '10.244.0.1:8080', { weight: 5 }),
    addDestination(web, '10.244.0.2:8080', { forwarding: IP_VS_CONN_F.DROUTE }),
    addDestination(web, '10.244.0.3:8080', {
      forwarding: IP_VS_CONN_F.TUNNEL,
      upperThreshold: 100,
      lowerThreshold: 10,
    }),
    addService('udp 10.96.0.10:53', { flags: IP_VS_SVC_F.ONEPACKET }),
    addService('sctp 10.96.0.11:7', { ...persistent, prefixLength: 24 }),
    addService(web6, { ...persistent, scheduler: 'lc', prefixLength: 64 }),
    addDestination(web6, '[fd24::1]:8080', { weight: 0 }),
    addService('tcp 10.96.0.12:80', {
      scheduler: 'mh',
      flags: IP_VS_SVC_F.SCHED1 | IP_VS_SVC_F.SCHED2,
    }),
  );
  expect(await saved(namespace)).toEqual([
    '-A --sctp-service 10.96.0.11:7 -s rr -p 600 -M 255.255.255.0',
    '-A -t 10.96.0.10:80 -s wrr',
    '-A -t 10.96.0.12:80 -s mh -b mh-fallback,mh-port',
    '-A -t [fd96::10]:80 -s lc -p 600 -M 64',
    '-A -u 10.96.0.10:53 -s rr -o',
    '-a -t 10.96.0.10:80 -r 10.244.0.1:8080 -m -w 5',
    '-a -t 10.96.0.10:80 -r 10.244.0.2:8080 -g -w 1',
    '-a -t 10.96.0.10:80 -r 10.244.0.3:8080 -i -w 1 --tun-type ipip',
    '-a -t [fd96::10]:80 -r [fd24::1]:8080 -m -w 0',
  ]);
  const limits = await namespace.run('ipvsadm', ['-Ln', '--thresholds']);
  expect(limits).toMatch(/-> 10\.244\.0\.3:8080 +100 +10 /);
});

test('the addon reads what ipvsadm wrote, including a service of a firewall mark', async () => {
  const { kernel, namespace } = await createIpvs();
  await namespace.run(
    'ipvsadm',
    ['-R'],
    `-A -t 10.96.0.10:80 -s wlc -p 360 -M 255.255.0.0
     -a -t 10.96.0.10:80 -r 10.244.0.1:8080 -m -w 5 -x 9 -y 3
     -A -u [fd96::10]:53 -s sh -b sh-port
     -a -u [fd96::10]:53 -r [fd24::1]:53 -i -w 0
     -A -f 7 -s rr
     -a -f 7 -r 10.244.0.9:0 -g -w 1
     -A -t 10.96.0.11:80 -s rr -p 300 -M 255.0.255.0
    `,
  );
  const services = await dumped(kernel, 'virtualService', {
    kind: 'virtualServicesDump',
    family: 0,
  });
  const found = services.map((each) => ({ ...each, address: [...each.address].join('.') }));
  const none = { connections: 0, inPackets: 0, outPackets: 0, inBytes: 0, outBytes: 0 };
  const v4 = { kind: 'virtualService', family: AF.INET, firewallMark: 0, protocol: 6, port: 80 };
  const persistent = { flags: IP_VS_SVC_F.PERSISTENT };
  expect(found).toHaveLength(4);
  expect(found).toEqual(
    expect.arrayContaining([
      {
        ...{ ...v4, ...persistent, address: '10.96.0.10', scheduler: 'wlc' },
        ...{ timeoutSeconds: 360, prefixLength: 16, ...none },
      },
      expect.objectContaining({ address: '10.96.0.11', prefixLength: 0xff }),
      expect.objectContaining({
        ...{ family: AF.INET6, protocol: 17, port: 53, scheduler: 'sh' },
        ...{ flags: IP_VS_SVC_F.SCHED2, prefixLength: 128 },
      }),
      expect.objectContaining({ firewallMark: 7, protocol: 0, address: '', port: 0 }),
    ]),
  );
  const [web6] = await dumped(kernel, 'virtualService', {
    kind: 'virtualServicesDump',
    family: AF.INET6,
  });
  expect(formatAddress(web6!.address)).toBe('fd96::10');
  const all = await dumped(kernel, 'destination', { kind: 'destinationsDump', ...everything });
  const idle = { activeConnections: 0, inactiveConnections: 0, persistentConnections: 0, ...none };
  expect(all).toHaveLength(2);
  expect(all.find(({ family }) => family === AF.INET)).toEqual({
    ...{ kind: 'destination', ...virtualService(web), destination: Uint8Array.of(10, 244, 0, 1) },
    ...{ destinationPort: 8080, forwarding: IP_VS_CONN_F.MASQ, weight: 5 },
    ...{ upperThreshold: 9, lowerThreshold: 3, ...idle },
  });
});

test('destinations can be read of one service, or of one family', async () => {
  const { kernel } = await createIpvs();
  const other = 'tcp 10.96.0.11:80';
  await applied(
    kernel,
    ...[addService(web), addDestination(web, '10.244.0.1:80')],
    ...[addService(other), addDestination(other, '10.244.0.2:80')],
    ...[addService(web6), addDestination(web6, '[fd24::1]:80')],
  );
  const texts = async (key: typeof everything | ReturnType<typeof virtualService>) => {
    const records = await dumped(kernel, 'destination', { kind: 'destinationsDump', ...key });
    return records
      .map((each) => `${formatAddress(each.address)} ${formatAddress(each.destination)}`)
      .sort();
  };
  const v4 = ['10.96.0.10 10.244.0.1', '10.96.0.11 10.244.0.2'];
  expect(await texts(virtualService(other))).toEqual(['10.96.0.11 10.244.0.2']);
  expect(await texts(virtualService('tcp 10.96.0.99:80'))).toEqual([]);
  expect(await texts({ ...everything, family: AF.INET } as never)).toEqual(v4);
  expect(await texts(everything)).toEqual([...v4, 'fd96::10 fd24::1']);
});

test('timeouts are those that ipvsadm shows, and the version is reported', async () => {
  const { kernel, namespace } = await createIpvs();
  const op: KernelOp = {
    kind: 'ipvsTimeoutsSet',
    tcpSeconds: 800,
    tcpFinSeconds: 90,
    udpSeconds: 0,
  };
  await applied(kernel, op);
  const shown = await namespace.run('ipvsadm', ['-L', '--timeout']);
  expect(shown.trim()).toBe('Timeout (tcp tcpfin udp): 800 90 300');
  expect(await dumped(kernel, 'ipvsTimeouts', { kind: 'ipvsTimeoutsGet' })).toMatchObject([
    { tcpSeconds: 800, tcpFinSeconds: 90, udpSeconds: 300 },
  ]);
  const [info] = await dumped(kernel, 'ipvsInfo', { kind: 'ipvsInfoGet' });
  expect(info!.version).toBe(0x010201);
  expect(info!.connectionTableSize).toBeGreaterThan(0);
});

test('connections and bytes are counted for services and destinations', async () => {
  const { kernel, namespace } = await createIpvs();
  await applied(
    kernel,
    addAddresses('lo', '10.96.0.10', '10.244.0.1'),
    addService(web),
    addDestination(web, '10.244.0.1:8080'),
  );
  const script = `
    const { createServer, connect } = require('node:net');
    const server = createServer((peer) => peer.end('hello')).listen(8080, '10.244.0.1', () => {
      connect(80, '10.96.0.10').on('close', () => server.close()).pipe(process.stdout);
    });`;
  expect(await namespace.run(process.execPath, ['-e', script])).toBe('hello');
  const read = async () => {
    const services = { kind: 'virtualServicesDump', family: AF.INET } as const;
    const [service] = await dumped(kernel, 'virtualService', services);
    const request = { kind: 'destinationsDump', ...virtualService(web) } as const;
    const [destination] = await dumped(kernel, 'destination', request);
    return [service!, destination!] as const;
  };
  // The kernel adds up counters every two seconds (ip_vs_est.c).
  const total = async () => (await read())[1].inPackets;
  await expect.poll(total, { timeout: hangsMs, interval: 500 }).toBeGreaterThan(3);
  const [service, destination] = await read();
  for (const { connections, inPackets, outBytes } of [service, destination]) {
    expect(connections).toBe(1);
    expect(inPackets).toBeGreaterThan(3);
    expect(outBytes).toBeGreaterThan(40 * 3);
  }
  expect(destination.activeConnections + destination.inactiveConnections).toBe(1);
});

test('thousands of services and destinations are written and read completely', async () => {
  const { kernel, namespace } = await createIpvs();
  const services = Array.from({ length: 1000 }, (_, i) => `tcp 10.97.${i >> 8}.${i & 255}:80`);
  const ops = services.flatMap((service, i) => [
    addService(service),
    ...[1, 2, 3].map((last) => addDestination(service, `10.244.${i & 127}.${last}:8080`)),
  ]);
  await applied(kernel, ...ops);
  expect(await saved(namespace)).toHaveLength(4000);
  const found = await dumped(kernel, 'virtualService', { kind: 'virtualServicesDump', family: 0 });
  expect(new Set(found.map((each) => formatAddress(each.address))).size).toBe(1000);
  const all = await dumped(kernel, 'destination', { kind: 'destinationsDump', ...everything });
  expect(all).toHaveLength(3000);
  await applied(kernel, ...services.map(deleteService));
  expect(await saved(namespace)).toEqual([]);
});

test('thousands of refusals are all reported, for any size of the receive buffer', async () => {
  const { kernel } = await createIpvs({ receiveBufferBytes: 4096 });
  const destinations = Array.from({ length: 2000 }, (_, i) => `10.244.${i >> 8}.${i & 255}:80`);
  const ops = destinations.map((to) => deleteDestination(web, to));
  const result = await kernel.apply(batch(addService(web), ...ops, deleteService(web)));
  expect(result).toMatchObject({ kind: 'failed', partly: true });
  const failures = result.kind === 'failed' ? result.failures : [];
  expect(failures.map(({ op, code }) => `${op} ${code}`)).toEqual(
    ops.map((_, i) => `${i + 1} ENOENT`),
  );
});

test('a weight and a scheduler change in place: connections and counters are kept', async () => {
  const { kernel, namespace } = await createIpvs();
  await applied(kernel, addService(web), addDestination(web, '10.244.0.1:8080'));
  await applied(
    kernel,
    setService(web, { scheduler: 'sed' }),
    setDestination(web, '10.244.0.1:8080', { weight: 0 }),
  );
  expect(await saved(namespace)).toEqual([
    '-A -t 10.96.0.10:80 -s sed',
    '-a -t 10.96.0.10:80 -r 10.244.0.1:8080 -m -w 0',
  ]);
});

test('an IPv4 destination is refused while lo is down, and the message names its op', async () => {
  const { kernel } = await createKernel();
  const result = await kernel.apply(batch(addService(web), addDestination(web, '10.244.0.1:80')));
  expect(result).toMatchObject({
    partly: true,
    failures: [{ op: 1, code: 'EINVAL', message: expect.any(String) as string }],
  });
});

/** Which server a connection to 10.96.0.10:80 with this mark reaches. */
async function reachedByMark(mark: number, virtualServices: string): Promise<string> {
  const { kernel, namespace } = await createIpvs();
  await applied(kernel, addAddresses('lo', '10.96.0.10', '10.244.0.1'));
  await namespace.run(
    'nft',
    ['-f', '-'],
    `table ip marks {
       chain output {
         type filter hook output priority -110
         ip daddr 10.96.0.10 meta mark set ${mark}
       }
     }`,
  );
  await namespace.run('ipvsadm', ['-R'], virtualServices);
  const script = `
    const { createServer, connect } = require('node:net');
    const servers = [
      createServer((peer) => peer.end('port of the real server')),
      createServer((peer) => peer.end('port of the client')),
    ];
    servers[0].listen(8080, '10.244.0.1', () => servers[1].listen(80, '10.244.0.1', () => {
      const close = () => servers.forEach((each) => each.close());
      connect(80, '10.96.0.10').on('close', close).pipe(process.stdout);
    }));`;
  return namespace.run(process.execPath, ['-e', script]);
}

/**
 * Why session affinity is not by firewall mark, which would be one memory for all addresses of a
 * Service port: `ip_vs_sched_persist` maps ports only where the port is the virtual service's.
 */
test.each([
  ['', 'port of the real server'],
  [' -p 300', 'port of the client'],
])('a virtual service by mark%s leads to the %s', async (persistence, reached) => {
  const byMark = `-A -f 7 -s rr${persistence}\n-a -f 7 -r 10.244.0.1:8080 -m -w 1\n`;
  expect(await reachedByMark(7, byMark)).toBe(reached);
});

/** Why inside clients are not led by firewall mark: `__ip_vs_svc_fwm_find` compares all bits. */
test.each([
  ['comes before one by address', 7, 'port of the real server'],
  ['is not found where the packet has another bit of a mark, too', 0x4007, 'port of the client'],
])('a virtual service by mark %s', async (_, mark, reached) => {
  const byMark = '-A -f 7 -s rr\n-a -f 7 -r 10.244.0.1:8080 -m -w 1\n';
  const byAddress = '-A -t 10.96.0.10:80 -s rr\n-a -t 10.96.0.10:80 -r 10.244.0.1:80 -m -w 1\n';
  expect(await reachedByMark(mark, byMark + byAddress)).toBe(reached);
});

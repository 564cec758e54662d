/** File descriptors run out, or would: by connections that go in circles, or by a limit. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { type KubernetesObject, SERVER_PORT, service, slice } from '../lab/objects.ts';
import { Place, type Program, until } from './program.ts';

const nodePort = 30_077;
const limit = 1500;
const endpoint = '10.244.1.9';
const unreadable = 'Could not read interfaces; keeping the last addresses';

/** Two nodes on one wire, each with two addresses: 10.9.0.1 and .11, and 10.9.0.2 and .12. */
async function twoNodes(): Promise<[Place, Place]> {
  const places: [Place, Place] = [await Place.make(), await Place.make()];
  const [one, other] = places.map(({ namespace }) => namespace);
  const peer = ['type', 'veth', 'peer', 'name', 'wire', 'netns', other!.name];
  await one!.run('ip', ['link', 'add', 'wire', ...peer]);
  for (const [i, { namespace }] of places.entries()) {
    for (const address of [`10.9.0.${i + 1}/24`, `10.9.0.${i + 11}/24`]) {
      await namespace.run('ip', ['addr', 'add', address, 'dev', 'wire']);
    }
    await namespace.run('ip', ['link', 'set', 'wire', 'up']);
  }
  return places;
}

/** Connects once; resolves to what was received when the connection has ended. */
function connectOnce({ namespace }: Place, to: string, port = nodePort): Promise<string> {
  const connects = `import { connect } from 'node:net';
    connect(${port}, '${to}').on('error', () => {}).pipe(process.stdout);`;
  const node = [process.execPath, '--input-type=module', '--eval', connects];
  return namespace.run('timeout', ['20', ...node]);
}

/** A server of the namespace that says hello. */
async function serveAt({ namespace }: Place, address: string): Promise<void> {
  await namespace.run('ip', ['addr', 'add', `${address}/32`, 'dev', 'lo']);
  const serves = `import { createServer } from 'node:net';
    createServer((client) => client.on('error', () => {}).end('hello'))
      .listen(${SERVER_PORT}, '${address}', () => console.log('listens'));`;
  const node = [process.execPath, '--input-type=module', '--eval', serves];
  const server = spawn('ip', ['netns', 'exec', namespace.name, ...node], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void server.kill('SIGKILL'));
  await once(server.stdout, 'data');
}

/** A Service with a node port and that server as its endpoint. */
function reachable(name: string, number: number, port: number): KubernetesObject[] {
  const clusterIp = { IPv4: `10.96.0.${number}` };
  return [
    service(name, { clusterIp, ports: [{ port: 80, nodePort: port }] }),
    slice('IPv4', name, [{ at: { IPv4: endpoint } }]),
  ];
}

async function listens({ namespace }: Place, port: number): Promise<void> {
  const listening = (): Promise<string> => namespace.run('ss', ['-Htln', 'sport', '=', `:${port}`]);
  await until(async () => (await listening()) !== '', `something listens on port ${port}`);
}

function descriptors({ pid }: Program): readonly number[] {
  return readdirSync(`/proc/${pid}/fd`).map(Number);
}

/** Connections that were made from the namespace, since it is there. */
async function dialled({ namespace }: Place): Promise<number> {
  const text = await namespace.run('cat', ['/proc/net/snmp']);
  const [names, values] = text.split('\n').filter((line) => line.startsWith('Tcp:'));
  const at = names!.split(' ').indexOf('ActiveOpens');
  return Number(values!.split(' ')[at]);
}

async function refusedBy(place: Place, bound: string): Promise<number> {
  const { body } = await place.ask('/metrics', 10249);
  const line = new RegExp(
    `^fairlead_socket_clients_refused_total\\{bound="${bound}"\\} (\\d+)$`,
    'm',
  );
  return Number(line.exec(body)?.[1]);
}

for (const [circle, endpoints, dialledMax, isRefused] of [
  ['two nodes', ['10.9.0.1', '10.9.0.2'], 20, false],
  // Each node sees the other's first address, and dials its second one.
  ['nodes that have other addresses as clients', ['10.9.0.11', '10.9.0.12'], 600, true],
] as const) {
  test(`a node port that is its own endpoint does not use up file descriptors: ${circle}`, async () => {
    const places = await twoNodes();
    const web = service('loop', {
      clusterIp: { IPv4: '10.96.0.77' },
      ports: [{ port: 80, nodePort }],
    });
    const at = endpoints.map((IPv4) => ({ at: { IPv4 } }));
    const loop = slice('IPv4', 'loop', at, { ports: [{ port: nodePort }] });
    const programs = places.map((place) => {
      place.apply([], web, loop);
      place.configure({ mode: 'userspace', nodePortAddresses: ['10.9.0.0/24'] });
      return place.startUnder({ within: ['prlimit', `--nofile=${limit}`] });
    });
    for (const place of places) await listens(place, nodePort);
    const dialledBefore = await Promise.all(places.map(dialled));
    expect(await connectOnce(places[0], '10.9.0.1')).toBe('');
    const dialledAfter = await Promise.all(places.map(dialled));
    expect(dialledAfter[0]).toBeGreaterThan(dialledBefore[0]!);
    for (const [i, place] of places.entries()) {
      expect((await place.ask('/livez')).status).toBe(200);
      expect(dialledAfter[i]! - dialledBefore[i]!).toBeLessThan(dialledMax);
      const left = (): number => descriptors(programs[i]!).length;
      await until(async () => left() < 100, 'descriptors are given back');
    }
    const [one, other] = await Promise.all(places.map((place) => refusedBy(place, 'client')));
    expect(one! + other! > 0).toBe(isRefused);
  });
}

for (const mode of ['nftables', 'userspace'] as const) {
  test(`mode ${mode} continues without any free file descriptor, and works when there are some`, async () => {
    const place = await Place.make();
    await serveAt(place, endpoint);
    place.configure({ mode, nodePortAddresses: ['127.0.0.0/8'] });
    const objects = reachable('first', 77, nodePort);
    place.apply(['pod-a'], ...objects);
    const program = place.start();
    await listens(place, nodePort);
    expect(await connectOnce(place, '127.0.0.1')).toBe('hello');

    const setLimit = (soft: number): void =>
      void execFileSync('prlimit', ['--pid', `${program.pid}`, `--nofile=${soft}:`]);
    let lowest = limit;
    // Descriptors that were open for a moment, as of the connection above, are free afterwards.
    const exhaust = (): void => {
      const open = new Set(descriptors(program));
      let free = 0;
      while (open.has(free)) free += 1;
      lowest = Math.min(lowest, free);
      setLimit(lowest);
    };
    const refusals = () => program.lines.filter(({ msg }) => msg === unreadable).length;
    let changes = 0;
    await until(async () => {
      exhaust();
      const change = changes % 2 === 0 ? 'add' : 'del';
      changes += 1;
      await place.namespace.run('ip', ['address', change, '192.0.2.77/32', 'dev', 'lo']);
      return refusals() > 0;
    }, 'the interfaces cannot be read');
    await until(async () => {
      exhaust();
      return (await connectOnce(place, '127.0.0.1')) === '';
    }, 'no connection is accepted');
    const more = reachable('more', 78, nodePort + 1);
    place.apply(['pod-b'], ...objects, ...more);
    setLimit(limit);
    await program.logged('Read interfaces again');
    await listens(place, nodePort + 1);
    for (const port of [nodePort, nodePort + 1]) {
      expect(await connectOnce(place, '127.0.0.1', port)).toBe('hello');
    }
    expect((await place.ask('/livez')).status).toBe(200);
  });
}

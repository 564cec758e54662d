/** The programs and their maps in the real kernel, by the connections of this process. */
import { mkdirSync, readdirSync, renameSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, it as anyIt, beforeAll, beforeEach, describe, expect } from 'vitest';
import { removeConnectTime } from '../../src/connect-time/maps/choice.ts';
import {
  addressKey,
  allExcluded,
  excludedKey,
  excludedValue,
  frontendKey,
  groupSize,
  groupValue,
  keyBytes,
  nodeAddressValue,
  poolValue,
  valueBytes,
  writeGroupKey,
} from '../../src/connect-time/maps/layout.ts';
import { BPFState } from '../../src/kernel/bpf-ops.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { openKernel } from '../../src/kernel/native-kernel.ts';
import type { KernelOp } from '../../src/kernel/ops.ts';
import { EndpointList } from '../../src/net/endpoint-list.ts';
import { FakeKernel } from '../fake/kernel.ts';
import { type ConnectTimePlace, canTranslate, makeConnectTimePlace } from '../lab/connect-time.ts';
import { paced } from '../lab/pace.ts';
import { address } from '../unit/state/build.ts';
import { batch } from './ops.ts';

const it = anyIt.skipIf(!canTranslate());

const families = { IPv4: 2, IPv6: 10 } as const;
type Family = keyof typeof families;
const loopback = { IPv4: '127.0.0.1', IPv6: '::1' } as const;
/** Addresses for documentation, which are not routed. */
const service = { IPv4: '198.51.100.1', IPv6: '2001:db8::1' } as const;
const room = { frontendsMax: 1024, endpointsMax: 32_768 };
const pool = Uint8Array.from({ length: 16 }, (_, i) => i + 1);

let place: ConnectTimePlace;
let kernel: Kernel;
const servers: Server[] = [];

beforeAll(() => {
  place = makeConnectTimePlace();
  place.include(process.pid);
  kernel = openKernel();
});
afterAll(() => {
  for (const server of servers) server.close();
  kernel.close();
  place.close();
});
beforeEach(() => removeConnectTime(kernel, place.directory));

/** Starts a server, and returns its port. `reached` is called for each connection. */
async function serve(
  family: Family,
  reached = (): void => {},
  then: 'ends' | 'is kept open' = 'ends',
): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    if (then === 'ends') socket.end();
  });
  server.on('connection', reached);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, loopback[family], resolve));
  return (server.address() as AddressInfo).port;
}

/** How long to wait for a peer that is not expected. */
const aMomentMs = paced(300);

/** The peer that the client sees, or the code of its error. */
function peerOf(host: string, port: number, waitMs = paced(20_000)): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host, port }, () => {
      resolve(`${socket.remoteAddress} ${socket.remotePort}`);
      socket.destroy();
    });
    socket.setTimeout(waitMs, () =>
      socket.destroy(Object.assign(new Error(), { code: 'silence' })),
    );
    socket.on('error', ({ code }: NodeJS.ErrnoException) => resolve(String(code)));
  });
}

function connected(host: string, port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port }, () => resolve(socket));
    socket.on('error', reject);
  });
}

/** What getpeername says. Node asks once and remembers, so its handle is asked. */
function peerNow(socket: Socket): string {
  const peer = {} as { address: string; port: number };
  (socket as unknown as { _handle: { getpeername(out: object): number } })._handle.getpeername(
    peer,
  );
  return `${peer.address} ${peer.port}`;
}

async function apply(...ops: KernelOp[]): Promise<void> {
  expect(await kernel.apply(batch(...ops))).toEqual({ kind: 'applied' });
}

function pinned(family: Family, all: 0 | 1 = 1, excludes: 0 | 1 = 0) {
  const { cgroup, directory } = place;
  const of = { directory, family: families[family], cgroup } as const;
  return { ...of, all, counts: 0, excludes, ...room } as const;
}

function adding(family: Family, map: string, key: Uint8Array, value: Uint8Array): KernelOp {
  const name = `${map}${family === 'IPv4' ? 4 : 6}`;
  return {
    kind: 'bpfElementsAdd',
    directory: place.directory,
    map: name,
    keys: key,
    values: value,
  };
}

function removing(family: Family, map: string, keys: Uint8Array): KernelOp {
  const { directory } = place;
  return {
    kind: 'bpfElementsDelete',
    directory,
    map: `${map}${family === 'IPv4' ? 4 : 6}`,
    keys,
  };
}

function leasing(family: Family, milliseconds: number, onlyValid: 0 | 1 = 0): KernelOp {
  const { directory } = place;
  return {
    kind: 'bpfLeaseExtend',
    ...{ directory, family: families[family], milliseconds, onlyValid },
  };
}

function groupKey(number: number): Uint8Array {
  const key = new Uint8Array(keyBytes.endpoints);
  writeGroupKey(key, 0, pool, number);
  return key;
}

/** Maps with endpoints at these ports, and the frontends, attached. */
async function translate(
  family: Family,
  endpoints: number | readonly number[],
  frontends: readonly (readonly [Uint8Array, Uint8Array])[],
): Promise<void> {
  const at = address(loopback[family]);
  const all = [endpoints].flat().map((port) => ({ address: at.bytes, port }));
  const list = EndpointList.of(family, all);
  const numbers = [...Array(Math.ceil(list.length / groupSize)).keys()];
  await apply(
    { kind: 'bpfMapsAdd', ...pinned(family) },
    ...numbers.map((number) =>
      adding(family, 'endpoints', groupKey(number), groupValue(list, number)),
    ),
    ...frontends.map(([key, value]) => adding(family, 'frontends', key, value)),
    { kind: 'bpfLinksAdd', ...pinned(family) },
    leasing(family, 3_600_000),
  );
}

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const clusterIP = [frontendKey(address(service[family]), 80), poolValue(pool, 1)] as const;

  it('leads a connection to the endpoint, and calls the peer by the address of the Service', async () => {
    await translate(family, await serve(family), [clusterIP]);
    expect(await peerOf(service[family], 80)).toBe(`${service[family]} 80`);
  });

  it('leads connections to each endpoint of all groups', async () => {
    const reached = new Set<number>();
    const ports: number[] = [];
    for (let i = 0; i < groupSize + 2; i += 1) {
      ports.push(await serve(family, () => reached.add(i)));
    }
    await translate(family, ports, [[clusterIP[0], poolValue(pool, ports.length)]]);
    for (let i = 0; i < 200; i += 1) {
      expect(await peerOf(service[family], 80)).toBe(`${service[family]} 80`);
    }
    expect(reached.size).toBe(ports.length);
  });

  it('ignores a connection for which its group has no endpoint', async () => {
    await translate(family, await serve(family), [[clusterIP[0], poolValue(pool, groupSize)]]);
    const isLed = new Set<boolean>();
    while (isLed.size < 2) {
      isLed.add((await peerOf(service[family], 80, aMomentMs)) === `${service[family]} 80`);
    }
  });

  it('ignores other ports, and a frontend with an empty pool', async () => {
    const left = [frontendKey(address(service[family]), 81), poolValue(pool, 0)] as const;
    const port = await serve(family);
    await translate(family, port, [clusterIP, left]);
    expect(await peerOf(loopback[family], port)).toBe(`${loopback[family]} ${port}`);
    for (const other of [81, 82]) {
      expect(await peerOf(service[family], other, aMomentMs)).not.toContain(service[family]);
    }
  });

  it('keeps the port of a range, and leaves other ports to the rules', async () => {
    const [port, other] = [await serve(family), await serve(family)].sort((a, b) => a - b);
    const ofRange = (first: number, lastPort: number) =>
      [
        addressKey(address(service[family])),
        poolValue(pool, 1, { port: first, lastPort }),
      ] as const;
    await translate(family, 1, [ofRange(port!, other! - 1)]);
    expect(await peerOf(service[family], port!)).toBe(`${service[family]} ${port}`);
    expect(await peerOf(service[family], other!, aMomentMs)).not.toContain(service[family]);
    await apply(adding(family, 'frontends', ...ofRange(port! + 1, other!)));
    expect(await peerOf(service[family], other!)).toBe(`${service[family]} ${other}`);
    expect(await peerOf(service[family], port!, aMomentMs)).not.toContain(service[family]);
  });

  it('translates node ports only at addresses that accept them', async () => {
    const nodePort = [frontendKey(undefined, 30080), poolValue(pool, 1)] as const;
    const own = address(service[family]);
    const accepting = [addressKey(own), nodeAddressValue('everybody')] as const;
    await translate(family, await serve(family), [nodePort, accepting]);
    expect(await peerOf(service[family], 30080)).toBe(`${service[family]} 30080`);
    expect(await peerOf(loopback[family], 30080)).toBe('ECONNREFUSED');
  });

  it('prevents a node port from replacing a frontend that only rules handle', async () => {
    const own = address(service[family]);
    await translate(family, await serve(family), [
      [frontendKey(undefined, 30080), poolValue(pool, 1)],
      [addressKey(own), nodeAddressValue('everybody')],
      [frontendKey(own, 30080), poolValue(new Uint8Array(16), 0)],
    ]);
    expect(await peerOf(service[family], 30080, aMomentMs)).not.toContain(service[family]);
  });

  it('translates only connections of the node’s network namespace if configured', async () => {
    await translate(family, await serve(family), [clusterIP]);
    await apply({ kind: 'bpfLinksAdd', ...pinned(family, 0) });
    expect(await peerOf(service[family], 80)).toBe(`${service[family]} 80`);
  });

  it('ignores processes in an excluded cgroup and below it', async () => {
    await translate(family, await serve(family), [clusterIP]);
    const own = statSync(place.cgroup, { bigint: true }).ino;
    const exclude = (cgroup: bigint) =>
      adding(family, 'excluded', excludedKey(cgroup), excludedValue);
    await apply(exclude(own), exclude(allExcluded));
    expect(await peerOf(service[family], 80)).toBe(`${service[family]} 80`);
    await apply({ kind: 'bpfLinksAdd', ...pinned(family, 1, 1) });
    expect(await peerOf(service[family], 80, aMomentMs)).not.toContain(service[family]);
    const below = place.folder('kubepods.slice/container.scope');
    place.include(process.pid, below);
    expect(await peerOf(service[family], 80, aMomentMs)).not.toContain(service[family]);
    await apply(removing(family, 'excluded', excludedKey(own)));
    expect(await peerOf(service[family], 80)).toBe(`${service[family]} 80`);
    await apply(exclude(statSync(below, { bigint: true }).ino));
    expect(await peerOf(service[family], 80, aMomentMs)).not.toContain(service[family]);
    place.include(process.pid);
    expect(await peerOf(service[family], 80)).toBe(`${service[family]} 80`);
  });

  it('stops when the lease expires, and keeps the peers of open connections', async () => {
    const port = await serve(family, undefined, 'is kept open');
    await translate(family, port, [clusterIP]);
    const open = await connected(service[family], 80);
    // It is over before it is read.
    await apply(leasing(family, 0));
    expect(await peerOf(service[family], 80, aMomentMs)).not.toContain(service[family]);
    expect(peerNow(open)).toBe(`${service[family]} 80`);
    open.destroy();
    expect(await kernel.apply(batch(leasing(family, 3_600_000, 1)))).toMatchObject({
      failures: [{ op: 0, code: 'ETIME' }],
    });
    expect(await peerOf(service[family], 80, aMomentMs)).not.toContain(service[family]);
    await apply(leasing(family, 3_600_000), leasing(family, 3_600_000, 1));
    expect(await peerOf(service[family], 80)).toBe(`${service[family]} 80`);
  });

  it('ignores connections until its lease begins', async () => {
    await translate(family, await serve(family), [clusterIP]);
    const digit = family === 'IPv4' ? 4 : 6;
    rmSync(join(place.directory, `lease${digit}`));
    await apply({ kind: 'bpfMapsAdd', ...pinned(family) });
    await apply({ kind: 'bpfLinksAdd', ...pinned(family) });
    expect(await peerOf(service[family], 80, aMomentMs)).not.toContain(service[family]);
  });

  it('translates by the first program although the last one cannot be attached', async () => {
    const port = await serve(family);
    const list = EndpointList.of(family, [{ address: address(loopback[family]).bytes, port }]);
    await apply(
      { kind: 'bpfMapsAdd', ...pinned(family) },
      adding(family, 'endpoints', groupKey(0), groupValue(list, 0)),
      adding(family, 'frontends', ...clusterIP),
      leasing(family, 3_600_000),
    );
    // A folder has the name of the last pin.
    const last = join(place.directory, family === 'IPv4' ? 'mapped_peer4' : 'peer6');
    mkdirSync(last);
    try {
      const result = await kernel.apply(batch({ kind: 'bpfLinksAdd', ...pinned(family) }));
      expect(result).toMatchObject({ failures: [{ code: 'EEXIST' }] });
      const peer = family === 'IPv4' ? `${service.IPv4} 80` : `${loopback.IPv6} ${port}`;
      expect(await peerOf(service[family], 80)).toBe(peer);
    } finally {
      rmdirSync(last);
    }
    const { records } = await kernel.dump({ kind: 'bpfStateGet', ...pinned(family) });
    expect(records).toMatchObject([{ links: BPFState.incomplete }]);
  });

  it('removes the pins of another version, and not those of the other family', async () => {
    const other = family === 'IPv4' ? 'IPv6' : 'IPv4';
    const [own, its] = family === 'IPv4' ? [4, 6] : [6, 4];
    await translate(family, await serve(family), [clusterIP]);
    const of = (name: string, digit: number): string => join(place.directory, `${name}${digit}`);
    renameSync(of('connect', own), of('sendmsg', own));
    renameSync(of('peers', own), join(place.directory, 'another'));
    await apply({ kind: 'bpfMapsAdd', ...pinned(other) });
    await apply({ kind: 'bpfRemove', directory: place.directory, family: families[family] });
    const left = readdirSync(place.directory);
    expect(left).toContain(`frontends${its}`);
    expect(left.filter((name) => !name.endsWith(String(its)))).toEqual([]);
    expect(await peerOf(service[family], 80, aMomentMs)).not.toContain(service[family]);
  });

  it('rejects a map whose values have another length, and reports it as wrong', async () => {
    await translate(family, await serve(family), [clusterIP]);
    const digit = family === 'IPv4' ? 4 : 6;
    for (const name of ['settings', 'counts'] as const) {
      rmSync(join(place.directory, `${name}${digit}`));
      // Values of 80 bytes are longer than what is read of either.
      renameSync(
        join(place.directory, `endpoints${digit}`),
        join(place.directory, `${name}${digit}`),
      );
      const request = { kind: 'bpfElementsDump', directory: place.directory } as const;
      await expect(kernel.dump({ ...request, map: `${name}${digit}` })).rejects.toThrow(
        'are of another version',
      );
      const { records } = await kernel.dump({ kind: 'bpfStateGet', ...pinned(family) });
      expect(records).toMatchObject([{ maps: BPFState.wrong }]);
      await apply({ kind: 'bpfRemove', directory: place.directory, family: families[family] });
      await apply({ kind: 'bpfMapsAdd', ...pinned(family) });
    }
  });

  it('stops when it is removed', async () => {
    await translate(family, await serve(family), [clusterIP]);
    await removeConnectTime(kernel, place.directory);
    expect(await peerOf(service[family], 80, aMomentMs)).not.toContain(service[family]);
  });

  it('reports how the existing programs differ from the requested ones', async () => {
    const state = async (all: 0 | 1) => {
      const { records } = await kernel.dump({ kind: 'bpfStateGet', ...pinned(family, all) });
      return records[0];
    };
    const { absent, incomplete, right, wrong } = BPFState;
    expect(await state(1)).toMatchObject({ maps: absent, links: absent });
    await apply({ kind: 'bpfMapsAdd', ...pinned(family) });
    expect(await state(1)).toMatchObject({ maps: right, links: absent });
    await apply({ kind: 'bpfLinksAdd', ...pinned(family) });
    expect(await state(1)).toMatchObject({ maps: right, links: right });
    expect(await state(0)).toMatchObject({ maps: right, links: wrong });
    rmSync(join(place.directory, `excluded${family === 'IPv4' ? 4 : 6}`));
    expect(await state(1)).toMatchObject({ maps: incomplete, links: right });
    await apply({ kind: 'bpfMapsAdd', ...pinned(family) });
    expect(await state(1)).toMatchObject({ maps: right, links: right });
  });
});

it('translates IPv6 sockets that connect to IPv4 Services', async () => {
  const frontend = [frontendKey(address(service.IPv4), 80), poolValue(pool, 1)] as const;
  await translate('IPv4', await serve('IPv4'), [frontend]);
  const host = `::ffff:${service.IPv4}`;
  expect(await peerOf(host, 80)).toBe(`${host} 80`);
});

describe('connect-time maps', () => {
  const many = 20_000;

  it('return what was written, in any number', async () => {
    const value = new Uint8Array(valueBytes.endpoints);
    const keys = Array.from({ length: many }, (_, i) => groupKey(i));
    const values = Array.from({ length: many }, () => value);
    await apply(
      { kind: 'bpfMapsAdd', ...pinned('IPv4') },
      adding('IPv4', 'endpoints', Buffer.concat(keys), Buffer.concat(values)),
    );
    const request = { kind: 'bpfElementsDump', directory: place.directory, map: 'endpoints4' };
    const { records } = await kernel.dump(request as { kind: 'bpfElementsDump' } & typeof request);
    const read = records.flatMap((one) => {
      if (one.kind !== 'bpfElements') return [];
      return Array.from({ length: one.keys.length / keyBytes.endpoints }, (_, i) =>
        Buffer.from(
          one.keys.subarray(keyBytes.endpoints * i, keyBytes.endpoints * (i + 1)),
        ).toString('hex'),
      );
    });
    expect(read.sort()).toEqual(keys.map((key) => Buffer.from(key).toString('hex')).sort());
  });

  it('accept as many elements as their size, and name the first one above it', async () => {
    const small = { ...pinned('IPv4'), endpointsMax: 3 };
    await apply({ kind: 'bpfMapsAdd', ...small });
    const keys = Buffer.concat([0, 1, 2, 3, 4].map((i) => groupKey(i)));
    const op = adding('IPv4', 'endpoints', keys, new Uint8Array(5 * valueBytes.endpoints));
    expect(await kernel.apply(batch(op))).toMatchObject({
      partly: true,
      failures: [{ op: 0, entry: 3, code: 'E2BIG' }],
    });
    const { records } = await kernel.dump({ kind: 'bpfStateGet', ...pinned('IPv4') });
    expect(records).toMatchObject([{ maps: BPFState.wrong }]);
  });

  it.each([
    ['the kernel', () => kernel],
    ['the kernel in memory', () => new FakeKernel()],
  ])('count their elements, in %s', async (_, open) => {
    const kernelOf = open();
    const counted = async (map: string): Promise<object[]> => {
      const request = { kind: 'bpfElementsCount', directory: place.directory, map } as const;
      const { records } = await kernelOf.dump(request);
      return [...records];
    };
    const done = async (...ops: KernelOp[]): Promise<void> => {
      expect(await kernelOf.apply(batch(...ops))).toEqual({ kind: 'applied' });
    };
    expect(await counted('endpoints4')).toEqual([]);
    await done({ kind: 'bpfMapsAdd', ...pinned('IPv4') });
    expect(await counted('endpoints4')).toEqual([{ kind: 'bpfCount', elements: 0 }]);
    const keys = Array.from({ length: many }, (_, i) => groupKey(i));
    const values = new Uint8Array(many * valueBytes.endpoints);
    await done(adding('IPv4', 'endpoints', Buffer.concat(keys), values));
    expect(await counted('endpoints4')).toEqual([{ kind: 'bpfCount', elements: many }]);
    await done(removing('IPv4', 'endpoints', Buffer.concat(keys.slice(0, 5000))));
    expect(await counted('endpoints4')).toEqual([{ kind: 'bpfCount', elements: many - 5000 }]);
    expect(await counted('frontends4')).toEqual([{ kind: 'bpfCount', elements: 0 }]);
  });

  it('name a missing element', async () => {
    await apply(
      { kind: 'bpfMapsAdd', ...pinned('IPv4') },
      adding('IPv4', 'endpoints', groupKey(0), new Uint8Array(valueBytes.endpoints)),
    );
    const keys = Buffer.concat([groupKey(0), groupKey(1)]);
    const inMap = { directory: place.directory, map: 'endpoints4' };
    const result = await kernel.apply(batch({ kind: 'bpfElementsDelete', ...inMap, keys }));
    expect(result).toMatchObject({
      partly: true,
      failures: [{ op: 0, entry: 1, code: 'ENOENT' }],
    });
  });

  it('are rejected outside of a bpf file system', async () => {
    const elsewhere = { ...pinned('IPv4'), directory: '/tmp/fairlead' };
    await expect(kernel.dump({ kind: 'bpfProbe', ...elsewhere })).rejects.toThrow(
      '/tmp is not in a bpf file system',
    );
    const nowhere = { ...pinned('IPv4'), cgroup: '/tmp' };
    await expect(kernel.dump({ kind: 'bpfProbe', ...nowhere })).rejects.toThrow(
      '/tmp is not a folder of cgroup2',
    );
  });
});

it('all programs can be loaded, and nothing is left', async () => {
  for (const family of ['IPv4', 'IPv6'] as const) {
    expect(await kernel.dump({ kind: 'bpfProbe', ...pinned(family) })).toMatchObject({
      records: [],
    });
    const { records } = await kernel.dump({ kind: 'bpfStateGet', ...pinned(family) });
    expect(records).toMatchObject([{ maps: BPFState.absent, links: BPFState.absent }]);
  }
});

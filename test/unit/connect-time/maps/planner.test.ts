/** Maps and programs in a kernel in memory. */

import { beforeEach, expect, it } from 'vitest';
import {
  ConnectTimeBackend,
  type ConnectTimeTypes,
} from '../../../../src/connect-time/maps/backend.ts';
import { packedGroup } from '../../../../src/connect-time/maps/layout.ts';
import { type Room, standardRoom } from '../../../../src/connect-time/maps/placement.ts';
import { kernelOps } from '../../../../src/kernel/ops.ts';
import { readRecords } from '../../../../src/kernel/records.ts';
import type { Environment } from '../../../../src/modes/mode.ts';
import { ModePlanner, type Planner } from '../../../../src/modes/planner.ts';
import { EndpointList } from '../../../../src/net/endpoint-list.ts';
import { inOrderOf } from '../../../../src/state/pool.ts';
import type { Forwarding } from '../../../../src/state/types.ts';
import { noPause } from '../../../../src/time/pacer.ts';
import { bpfElements } from '../../../fake/bpf.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { config } from '../../modes/config.ts';
import { address, http, ready, resolveOne, service, slice } from '../../state/build.ts';

const environment: Environment = {
  serviceCIDRs: [],
  nodePortAddresses: 'all',
  connectTimeAddresses: [address('192.168.0.1')],
};
const placement = {
  directory: '/bpf/fairlead',
  cgroup: '/cgroup',
  reach: 'all',
  excludes: true,
  room: standardRoom,
  secret: new Uint8Array(16).fill(7),
  leaseMs: 300_000,
} as const;

let kernel: FakeKernel;
let planner: Planner;
beforeEach(() => {
  kernel = new FakeKernel();
  planner = newPlanner();
});

const unpin = async (): Promise<void> => kernel.bpf.maps.clear();

function newPlanner(room: Room = standardRoom): Planner {
  return new ModePlanner<ConnectTimeTypes>({
    family: config.family,
    backend: () => new ConnectTimeBackend(config, { ...placement, room }, unpin),
    environment,
  });
}

async function start(...wanted: Forwarding[]): Promise<void> {
  await restore(...wanted);
  apply();
}

async function restore(...wanted: Forwarding[]): Promise<void> {
  const found = await planner.observe(kernel, noPause);
  const repair = await found.restore(wanted, noPause);
  for (const one of wanted) repair.compare(one);
  await repair.finish(noPause);
}

/** Another process restores this. Returns the kinds of what it writes, after which all is right. */
async function restarted(next: Planner, wanted: Forwarding): Promise<string[]> {
  planner = next;
  await restore(wanted);
  const batch = planner.take()!;
  const result = await (batch.apply?.(kernel) ?? kernel.apply(batch.ops));
  if (result.kind === 'applied') batch.committed(result);
  const again = await (await planner.observe(kernel, noPause)).repair(noPause);
  expect(again.drift).toEqual({ missing: 0, wrong: 0, unwanted: 0 });
  return Array.from(readRecords(kernelOps, batch.ops), ({ kind }) => kind);
}

function apply(): string {
  const batch = planner.take();
  if (batch === undefined) return 'nothing';
  const result = kernel.applyNow(batch.ops);
  if (result.kind === 'applied') {
    batch.committed?.(result);
    return 'applied';
  }
  const culprits = result.failures.flatMap((failure) => batch.culprits(failure));
  return `${result.failures.map(({ code }) => code).join()} of ${culprits.join()}`;
}

function web(...endpoints: string[]): Forwarding {
  const of = service({ type: 'NodePort', ports: [{ ...http, nodePort: 30080 }] });
  return resolveOne(of, [slice(Object.fromEntries(endpoints.map((one) => [one, ready])))]);
}

const mapped = `${'00'.repeat(10)}ffff`;
const hexOf = (ip: string): string => `${mapped}${Buffer.from(address(ip).bytes).toString('hex')}`;

function elements(map: 'frontends4' | 'endpoints4' | 'excluded4'): [string, string][] {
  return [...(kernel.bpf.maps.get(`${placement.directory}/${map}`) ?? [])].sort();
}

/** Endpoints by number of the group. */
function endpoints(): string[] {
  return elements('endpoints4').map(([key, value]) => {
    const group = EndpointList.from('IPv4', packedGroup('IPv4', Buffer.from(value, 'hex')));
    return `${Buffer.from(key, 'hex').readUInt32LE(16)} ${group.texts().join(' ')}`;
  });
}

it('connect-time maps have an element for each address, node port, and address that accepts it', async () => {
  await start(web('10.244.0.1', '10.244.0.2'));
  const [pool] = elements('endpoints4').map(([key]) => key.slice(0, 32));
  const two = `${pool}0200000000000000`;
  expect(elements('frontends4')).toEqual(
    [
      [`${hexOf('10.96.0.1')}00500600`, two],
      [`${'00'.repeat(16)}75800601`, two],
      [`${hexOf('192.168.0.1')}00000002`, '00'.repeat(24)],
    ].sort(),
  );
  expect(endpoints()).toEqual(['0 10.244.0.1:8080 10.244.0.2:8080']);
});

it('connect-time programs are attached last, for the requested sockets', async () => {
  await start(web('10.244.0.1'));
  expect([...kernel.bpf.links.values()]).toEqual([
    { cgroup: '/cgroup', all: 1, counts: 0, excludes: 1 },
  ]);
});

it('a removed endpoint is replaced by the last one, and nothing else is written', async () => {
  const ips = Array.from({ length: 9 }, (_, i) => `10.244.0.${i + 1}`);
  const before = web(...ips);
  await start(before);
  planner.change(before, inOrderOf(before, web(...ips.slice(1))));
  const batch = planner.take()!;
  const ours = [...readRecords(kernelOps, batch.ops)].flatMap((op) =>
    'map' in op ? [`${op.kind} ${op.map} ${bpfElements(op)}`] : [],
  );
  expect(ours).toEqual([
    'bpfElementsAdd endpoints4 1',
    'bpfElementsAdd frontends4 2',
    'bpfElementsDelete endpoints4 1',
  ]);
  expect(kernel.applyNow(batch.ops).kind).toBe('applied');
  expect(endpoints()).toEqual([
    '0 10.244.0.9:8080 10.244.0.2:8080 10.244.0.3:8080 10.244.0.4:8080',
    '1 10.244.0.5:8080 10.244.0.6:8080 10.244.0.7:8080 10.244.0.8:8080',
  ]);
});

it('connect-time maps follow addresses of the node', async () => {
  await start(web('10.244.0.1'));
  const connectTimeAddresses = [address('192.168.0.7')];
  await planner.changeEnvironment({ ...environment, connectTimeAddresses }, noPause);
  expect(apply()).toBe('applied');
  const keys = elements('frontends4').map(([key]) => key);
  expect(keys).toContain(`${hexOf('192.168.0.7')}00000002`);
  expect(keys).not.toContain(`${hexOf('192.168.0.1')}00000002`);
});

it('connect-time maps limit loopback addresses to the sockets of the node', async () => {
  await start(web('10.244.0.1'));
  const connectTimeAddresses = [address('127.0.0.1')];
  await planner.changeEnvironment({ ...environment, connectTimeAddresses }, noPause);
  expect(apply()).toBe('applied');
  const found = new Map(elements('frontends4'));
  expect(found.get(`${hexOf('127.0.0.1')}00000002`)).toBe(`${'00'.repeat(20)}01000000`);
});

/** Numbers of cgroups that the map holds. */
function excluded(): bigint[] {
  return elements('excluded4').map(([key]) => Buffer.from(key, 'hex').readBigUInt64LE());
}

it('connect-time maps follow the excluded cgroups, and mark when all exist', async () => {
  await start(web('10.244.0.1'));
  expect(excluded()).toEqual([]);
  await planner.changeEnvironment({ ...environment, excludedCgroups: [] }, noPause);
  expect(apply()).toBe('applied');
  expect(excluded()).toEqual([0n]);
  await planner.changeEnvironment({ ...environment, excludedCgroups: [7n, 2n ** 40n] }, noPause);
  expect(apply()).toBe('applied');
  expect(new Set(excluded())).toEqual(new Set([0n, 7n, 2n ** 40n]));
  await planner.changeEnvironment({ ...environment, excludedCgroups: [8n] }, noPause);
  expect(apply()).toBe('applied');
  expect(new Set(excluded())).toEqual(new Set([0n, 8n]));
});

it('an upgrade creates missing maps, keeps the others, and replaces the links', async () => {
  const before = web('10.244.0.1');
  await start(before);
  kernel.bpf.maps.delete(`${placement.directory}/excluded4`);
  const kinds = await restarted(newPlanner(), before);
  expect(kinds).toEqual(['bpfMapsAdd', 'bpfLeaseExtend', 'bpfLinksAdd']);
});

it('a version with maps of another form makes its own before it replaces the programs', async () => {
  const before = web('10.244.0.1', '10.244.0.2');
  await start(before);
  const frontends = elements('frontends4');
  const kinds = await restarted(newPlanner({ frontends: 16, endpoints: 64 }), before);
  // Attached programs use their own maps until the last step.
  expect(kinds[0]).toBe('bpfMapsAdd');
  expect(kinds.slice(-2)).toEqual(['bpfLeaseExtend', 'bpfLinksAdd']);
  expect(kinds).not.toContain('bpfRemove');
  expect(elements('frontends4')).toEqual(frontends);
});

it('missing maps count as one fault', async () => {
  await start(web('10.244.0.1'));
  kernel.bpf.maps.delete(`${placement.directory}/endpoints4`);
  expect(await planner.miscounts?.(kernel)).toEqual([
    { object: 'maps in /bpf/fairlead', expected: 1, counted: 0 },
  ]);
});

it('a check reports that another program has detached the programs', async () => {
  await start(web('10.244.0.1'));
  expect(await planner.miscounts?.(kernel)).toEqual([]);
  kernel.bpf.links.clear();
  expect(await planner.miscounts?.(kernel)).toEqual([
    { object: 'programs in /bpf/fairlead', expected: 1, counted: 0 },
  ]);
});

it('a description names the elements of a Service', async () => {
  const forwarding = web('10.244.0.1', '10.244.0.2');
  await start(forwarding);
  expect(planner.describe(forwarding)).toContain(
    'bpf map /bpf/fairlead/frontends4: TCP 10.96.0.1:80 to 2 endpoints',
  );
});

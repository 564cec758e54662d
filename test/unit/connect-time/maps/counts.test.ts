/** Counts of connections in a map, in a kernel in memory. */

import { beforeEach, expect, it } from 'vitest';
import { ConnectTimeCounts } from '../../../../src/connect-time/maps/counts.ts';
import { frontendKey, groupSize, groupValue } from '../../../../src/connect-time/maps/layout.ts';
import type { Count } from '../../../../src/modes/traffic-counts.ts';
import { type Address, formatAddress } from '../../../../src/net/address.ts';
import { EndpointList } from '../../../../src/net/endpoint-list.ts';
import { noPause } from '../../../../src/time/pacer.ts';
import { batch } from '../../../conformance/ops.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { address } from '../../state/build.ts';

const directory = '/bpf/fairlead';
const inMap = { directory, map: 'counts4' };
const web = frontendKey(address('10.96.0.1'), 80);
const nodePort = frontendKey(undefined, 30_080);

let kernel: FakeKernel;
beforeEach(() => {
  kernel = new FakeKernel();
  const room = { frontendsMax: 10, endpointsMax: 10 };
  kernel.foreign(batch({ kind: 'bpfMapsAdd', directory, family: 2, ...room }));
});

/** What programs have counted. */
function counted(frontend: Uint8Array, endpoint: string, count: number): void {
  const { bytes } = address(endpoint);
  const list = EndpointList.of('IPv4', [{ address: bytes, port: 8080 }]);
  const group = groupValue(list, 0);
  const keys = Buffer.concat([frontend, group.subarray(0, group.length / groupSize)]);
  const values = Buffer.alloc(8);
  values.writeBigUInt64LE(BigInt(count));
  kernel.foreign(batch({ kind: 'bpfElementsAdd', ...inMap, keys, values }));
}

async function read(counts: ConnectTimeCounts): Promise<Record<string, number>> {
  const told: Count[] = [];
  const reader = { kernel, directory, family: 'IPv4', pause: noPause } as const;
  await counts.read(reader, (one) => {
    told.push(one);
    return one.destination.address === undefined ? 'small' : 'large';
  });
  return Object.fromEntries(told.map((one) => [nameOf(one), one.count]));
}

function nameOf({ destination, of }: Count): string {
  const { address: to, port, protocol } = destination;
  const frontend = `${protocol} ${textOf(to)}:${port}`;
  return of.kind === 'endpoint' ? `${frontend} at ${of.endpoint}` : `${frontend} ${of.kind}`;
}

function textOf(to: Address | undefined): string {
  return to === undefined ? '*' : formatAddress(to.bytes);
}

const elements = (): number => kernel.bpf.maps.get(`${directory}/counts4`)!.size;

it('connect-time counts are reported by frontend and by endpoint', async () => {
  counted(web, '10.244.0.1', 3);
  counted(web, '10.244.0.2', 4);
  counted(nodePort, '10.244.0.1', 5);
  expect(await read(new ConnectTimeCounts())).toEqual({
    'TCP 10.96.0.1:80 connections': 7,
    'TCP 10.96.0.1:80 at 10.244.0.1:8080': 3,
    'TCP 10.96.0.1:80 at 10.244.0.2:8080': 4,
    'TCP *:30080 connections': 5,
    'TCP *:30080 at 10.244.0.1:8080': 5,
  });
});

it('connect-time counts of endpoints without connections are summed up to save memory', async () => {
  const counts = new ConnectTimeCounts(2);
  for (const last of [1, 2, 3]) counted(web, `10.244.0.${last}`, last);
  await read(counts);
  expect(elements()).toBe(3);
  counted(web, '10.244.0.3', 10);
  await read(counts);
  const sums = { 'TCP 10.96.0.1:80 connections': 13, 'TCP 10.96.0.1:80 at 10.244.0.3:8080': 10 };
  expect(await read(counts)).toEqual(sums);
  expect(elements()).toBe(2);
});

it('connect-time counts continue when an endpoint is added again, also after a restart', async () => {
  const counts = new ConnectTimeCounts(0);
  counted(web, '10.244.0.1', 3);
  await read(counts);
  await read(counts);
  counted(web, '10.244.0.1', 1);
  expect(await read(new ConnectTimeCounts())).toEqual({
    'TCP 10.96.0.1:80 connections': 4,
    'TCP 10.96.0.1:80 at 10.244.0.1:8080': 1,
  });
});

it('connect-time counts of unused frontends are deleted from the map when it is too full', async () => {
  const counts = new ConnectTimeCounts(0);
  counted(web, '10.244.0.1', 3);
  for (let i = 0; i < 3; i += 1) await read(counts);
  expect(elements()).toBe(1);
  await read(counts);
  expect(elements()).toBe(0);
});

it('connect-time counts are not lost when the map is full', async () => {
  const counts = new ConnectTimeCounts(2);
  for (const last of [1, 2, 3]) counted(web, `10.244.0.${last}`, last);
  kernel.bpf.elementsMax = elements();
  await read(counts);
  await read(counts);
  expect(elements()).toBe(1);
  expect(await read(counts)).toEqual({ 'TCP 10.96.0.1:80 connections': 6 });
});

it('connect-time counts of endpoints in use are summed up for the namespace that has most', async () => {
  const counts = new ConnectTimeCounts(4);
  counted(nodePort, '10.244.0.9', 1);
  for (const last of [1, 2, 3, 4, 5, 6]) counted(web, `10.244.0.${last}`, last);
  await read(counts);
  counted(nodePort, '10.244.0.9', 2);
  for (const last of [1, 2, 3, 4, 5, 6]) counted(web, `10.244.0.${last}`, 10);
  await read(counts);
  // Of one namespace its share of three and the sum, of the other all that it has.
  expect(elements()).toBe(3 + 1 + 1);
  expect(await read(new ConnectTimeCounts())).toMatchObject({
    'TCP 10.96.0.1:80 connections': 60,
    'TCP *:30080 at 10.244.0.9:8080': 2,
  });
});

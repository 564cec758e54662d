/** What becomes of connections to endpoints that have gone, where the Service says it. */
import { expect, test } from 'vitest';
import { defaultIPVSSettings } from '../../../../src/modes/mode.ts';
import type { Endings } from '../../../../src/state/endings.ts';
import { forwardingKey } from '../../../../src/state/types.ts';
import {
  address,
  draining,
  type Endpoint,
  http,
  ready,
  resolveOne,
  service,
  slice,
  slicePort,
  stopping,
} from '../../state/build.ts';
import { config } from '../config.ts';
import type { Forwardings } from '../nftables/cluster.ts';
import { Rig } from './rig.ts';

const node = address('192.168.0.1');
const environment = { serviceCIDRs: [], nodePortAddresses: [node], hostAddresses: [node] };

const [a, b] = ['10.244.0.5', '10.244.1.6'] as const;

type Endpoints = Readonly<Record<string, Endpoint>>;

/** Service web on these endpoints, port 8080 of each. */
function web(
  endpoints: Endpoints,
  endings: Endings | undefined,
  protocol: 'TCP' | 'UDP' = 'TCP',
): Forwardings {
  const ports = [slicePort('http', 8080, protocol)];
  const forwarding = resolveOne(service({ endings, ports: [{ ...http, protocol }] }), [
    slice(endpoints, { ports }),
  ]);
  return new Map([[forwardingKey(forwarding.servicePort), forwarding]]);
}

/** A Service whose connections are ended when their endpoint has left its EndpointSlices. */
const ending = (endpoints: Endpoints): Forwardings => web(endpoints, { endAfterMs: 1000 });
const keeping = (endpoints: Endpoints): Forwardings => web(endpoints, { keepsFlows: true }, 'UDP');

async function started(desired: Forwardings): Promise<Rig> {
  const rig = new Rig({ ...config, ipvs: defaultIPVSSettings }, environment);
  await rig.start(desired);
  return rig;
}

function next(rig: Rig, desired: Forwardings): string[] {
  rig.plan(desired);
  return written(rig.take());
}

function written(script: string): string[] {
  const lines = script.split('\n').filter((line) => line !== '');
  return lines.map((line) => line.replace(/ -m -w/, ''));
}

const deleted = (option: '-t' | '-u') => `ipvsadm -d ${option} 10.96.0.1:80 -r ${a}:8080`;
const retired = (option: '-t' | '-u') => `ipvsadm -e ${option} 10.96.0.1:80 -r ${a}:8080 0`;
const busy = { activeConnections: 1 };

test('a real server is deleted with its connections when it has left the EndpointSlices', async () => {
  const c = '10.244.1.7';
  const rig = await started(ending({ [a]: ready, [b]: ready, [c]: ready }));
  rig.kernel.ipvs.traffic('TCP 10.96.0.1:80', `${a}:8080`, busy);
  expect(next(rig, ending({ [a]: draining, [b]: ready, [c]: draining }))[0]).toBe(retired('-t'));
  expect(next(rig, ending({ [a]: stopping, [b]: ready, [c]: stopping }))).toEqual([]);
  expect(next(rig, ending({ [b]: ready, [c]: stopping }))).toEqual([deleted('-t')]);
  expect(next(rig, ending({ [b]: ready }))).toHaveLength(1);
  expect(rig.planner.takeDeferred).toBeUndefined();
});

test('a real server that leaves pool and EndpointSlices in one step is deleted', async () => {
  const rig = await started(ending({ [a]: ready, [b]: ready }));
  expect(next(rig, ending({ [b]: ready }))).toEqual([deleted('-t')]);
});

test('its deletion is not forgotten when the kernel refuses the batch', async () => {
  const rig = await started(ending({ [a]: ready, [b]: ready }));
  rig.kernel.ipvs.traffic('TCP 10.96.0.1:80', `${a}:8080`, busy);
  rig.plan(ending({ [b]: ready }));
  rig.kernel.failNext({ code: 'ENOMEM', forKey: `TCP 10.96.0.1:80 -> ${a}` });
  await rig.takePartly();
  expect(rig.kernel.ipvs.text()).not.toContain(a);
});

test('nothing is ended that the annotation, or this process, comes too late for', async () => {
  const rig = await started(web({ [a]: ready, [b]: ready }, undefined));
  rig.kernel.ipvs.traffic('TCP 10.96.0.1:80', `${a}:8080`, busy);
  expect(next(rig, web({ [b]: ready }, undefined))).toEqual([retired('-t')]);
  expect(next(rig, ending({ [b]: ready }))).toEqual([]);
  const { writes } = rig.kernel;
  await rig.crash(ending({ [b]: ready }));
  expect(await rig.drain()).toBe('');
  expect(rig.kernel.writes).toBe(writes);
});

test('a Service that loses the annotation keeps its connections', async () => {
  const rig = await started(ending({ [a]: ready, [b]: ready }));
  expect(next(rig, ending({ [a]: draining, [b]: ready }))).toEqual([retired('-t')]);
  expect(next(rig, web({ [b]: ready }, undefined))).toEqual([]);
});

test('frontends that refuse clients reset what they know nothing of', async () => {
  const rig = await started(ending({ [a]: ready }));
  expect(next(rig, ending({}))).toEqual([
    'add element ip fairlead-ipvs rejected { 10.96.0.1 . tcp . 80 }',
    'add element ip fairlead-ipvs resets { 10.96.0.1 . tcp . 80 }',
    deleted('-t'),
    'delete element ip fairlead-ipvs internal { 10.96.0.1 . tcp . 80 }',
  ]);
  const plain = await started(web({}, undefined));
  expect(plain.kernel.ruleset()).not.toMatch(/resets[^}]*10\.96\.0\.1/);
});

test('UDP flows stay with an endpoint as long as it serves', async () => {
  const rig = await started(keeping({ [a]: ready, [b]: ready }));
  rig.kernel.ipvs.traffic('UDP 10.96.0.1:80', `${a}:8080`, busy);
  expect(next(rig, keeping({ [a]: draining, [b]: ready }))).toEqual([retired('-u')]);
  const { writes } = rig.kernel;
  await rig.crash(keeping({ [a]: draining, [b]: ready }));
  expect(rig.kernel.writes).toBe(writes);
  expect(next(rig, keeping({ [a]: stopping, [b]: ready }))).toEqual([deleted('-u')]);
});

test('UDP flows leave an endpoint that serves no more, also if that was while nothing ran', async () => {
  const rig = await started(keeping({ [a]: ready, [b]: ready }));
  rig.kernel.ipvs.traffic('UDP 10.96.0.1:80', `${a}:8080`, busy);
  expect(next(rig, keeping({ [a]: draining, [b]: ready }))).toEqual([retired('-u')]);
  await rig.crash(keeping({ [b]: ready }));
  expect(rig.kernel.ipvs.text()).not.toContain(a);
});

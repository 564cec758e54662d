import { expect, it } from 'vitest';
import { ipvsMode } from '../../../../src/modes/ipvs/mode.ts';
import { defaultIPVSSettings } from '../../../../src/modes/mode.ts';
import { formatEndpoint } from '../../../../src/net/address.ts';
import { allPaths } from '../../../../src/state/paths.ts';
import { noPause } from '../../../../src/time/pacer.ts';
import { batch } from '../../../conformance/ops.ts';
import { addDestination, addService } from '../../../conformance/single-cases.ts';
import type { FakeKernel } from '../../../fake/kernel.ts';
import { address, cidr } from '../../state/build.ts';
import { all, clusterIP, config, forwarding, pool } from '../nftables/forwardings.ts';
import { freshState, Rig } from './rig.ts';

const node = address('192.168.0.1');
const environment = { serviceCIDRs: [], nodePortAddresses: [node], hostAddresses: [node] };

const theirs = 'tcp 10.96.9.9:80';

/** The reported counters, as text. */
async function told(kernel: FakeKernel): Promise<string[]> {
  const texts: string[] = [];
  await ipvsMode.trafficCounts!(kernel, 'IPv4', noPause, ({ count, destination, of }) => {
    const frontend = formatEndpoint(destination.address!.bytes, destination.port!);
    const what = of.kind === 'endpoint' ? of.endpoint : of.kind;
    texts.push(`${destination.protocol} ${frontend} ${what} ${count}`);
    return '';
  });
  return texts;
}

it('IPVS connections are reported by frontend and endpoint, for our virtual services only', async () => {
  const rig = new Rig({ ...config, ipvs: defaultIPVSSettings }, environment);
  const other = { frontends: [clusterIP('10.96.0.2')] };
  await rig.start(all(forwarding('web', pool(1, 2)), forwarding('idle', pool(3), other)));
  rig.kernel.foreign(batch(addService(theirs), addDestination(theirs, '10.0.0.9:80')));
  expect(await told(rig.kernel)).toEqual([]);
  const { ipvs } = rig.kernel;
  ipvs.traffic('TCP 10.96.0.1:80', '10.0.0.1:8080', { connections: 3 });
  ipvs.traffic('TCP 10.96.0.1:80', '10.0.0.2:8080', { connections: 4 });
  ipvs.traffic('TCP 10.96.9.9:80', '10.0.0.9:80', { connections: 5 });
  expect(await told(rig.kernel)).toEqual([
    'TCP 10.96.0.1:80 connections 7',
    'TCP 10.96.0.1:80 10.0.0.1:8080 3',
    'TCP 10.96.0.1:80 10.0.0.2:8080 4',
  ]);
});

it('IPVS counters are enabled and disabled in the existing table', async () => {
  const settings = { ...config, ipvs: defaultIPVSSettings };
  const ranges = { sourceRanges: [cidr('192.0.2.0/24')] };
  const address = { kind: 'loadBalancerIP', address: node, paths: allPaths.outside } as const;
  const guarded = { ...clusterIP('10.96.0.2'), ...address };
  const wanted = all(
    forwarding('web', pool(1, 2)),
    forwarding('guarded', pool(3), { ...ranges, frontends: [guarded] }),
  );
  const { kernel } = new Rig(settings, environment);
  for (const countsTraffic of [false, true, false]) {
    const setting = { ...settings, countsTraffic };
    const rig = new Rig(setting, environment, kernel);
    await rig.start(wanted);
    for (let i = 0; i < 3 && rig.planner.takeDeferred; i += 1) await rig.drain();
    expect(rig.state()).toBe(await freshState(setting, environment, wanted));
  }
});

/**
 * What rules of mode ipvs refuse, and count. Kernels without IPVS refuse the virtual services, but
 * take the table before them, and packets to frontends without endpoints meet nothing else.
 */
import { expect, test } from 'vitest';
import { tableLayout } from '../../src/modes/ipvs/layout.ts';
import { ipvsMode } from '../../src/modes/ipvs/mode.ts';
import { defaultIPVSSettings, type ModeConfig } from '../../src/modes/mode.ts';
import { readCountings, refusalCountings } from '../../src/modes/nft-table/traffic.ts';
import { allPaths } from '../../src/state/paths.ts';
import { noPause } from '../../src/time/pacer.ts';
import { FakeKernel } from '../fake/kernel.ts';
import {
  clusterIP,
  forwarding,
  config as plain,
  pool,
} from '../unit/modes/nftables/forwardings.ts';
import { address, cidr } from '../unit/state/build.ts';
import { createKernel } from './namespace.ts';

const environment = {
  serviceCIDRs: [cidr('10.96.0.0/16')],
  nodePortAddresses: [],
  hostAddresses: [],
};

const guarded = {
  kind: 'loadBalancerIP',
  address: address('10.97.0.1'),
  port: 80,
  paths: allPaths.outside,
} as const;

function udp(name: string, fields: Parameters<typeof forwarding>[2]) {
  const servicePort = { namespace: 'ns', name, port: '', protocol: 'UDP' } as const;
  return forwarding(name, pool(), { ...fields, servicePort });
}

const services = [
  udp('none', { frontends: [clusterIP('10.96.0.1', 'reject')] }),
  udp('remote', { frontends: [clusterIP('10.96.0.2', 'drop')] }),
  udp('guarded', { cluster: pool(1), frontends: [guarded], sourceRanges: [cidr('192.0.2.0/24')] }),
];

/** The batches of a start, as they would be applied. */
async function batches(countsTraffic: boolean): Promise<Uint8Array[]> {
  const config: ModeConfig = { ...plain, ipvs: defaultIPVSSettings, countsTraffic };
  const planner = ipvsMode.planner(config, environment);
  const found = await planner.observe(new FakeKernel(), noPause);
  const repair = await found.restore(services, noPause);
  for (const one of services) repair.compare(one);
  await repair.finish(noPause);
  const batch = planner.take();
  return batch === undefined ? [] : [batch.ops];
}

test.each([false, true])(
  'IPVS refusals are the same with and without counters (%s)',
  async (countsTraffic) => {
    const { kernel, namespace } = await createKernel();
    for (const ops of await batches(countsTraffic)) await kernel.apply(ops);
    await namespace.run('ip', ['link', 'set', 'lo', 'up']);
    for (const vip of ['10.96.0.1', '10.96.0.2', '10.97.0.1']) {
      await namespace.run('ip', ['address', 'add', `${vip}/32`, 'dev', 'lo']);
    }
    await namespace.run('ip', ['route', 'add', '10.96.0.9', 'dev', 'lo']);
    /** Sends two datagrams. The second is not sent if the first was rejected. */
    const send = async (to: string): Promise<string> => {
      const socket = `/dev/udp/${to.replace(':', '/')}`;
      const words = `exec 3<>${socket}; echo a >&3; sleep 0.2; echo b >&3`;
      const said = await namespace.run('bash', ['-c', `(${words}) 2>&1 || true`]);
      return said.includes('refused') ? 'refused' : 'silence';
    };
    const ends = {
      '10.96.0.1:80': 'refused',
      '10.96.0.2:80': 'silence',
      '10.97.0.1:80': 'silence',
      '10.97.0.1:81': 'refused',
      '10.96.0.9:80': 'silence',
    } as const;
    const met = Object.keys(ends).map(async (to) => [to, await send(to)] as const);
    expect(Object.fromEntries(await Promise.all(met))).toEqual(ends);
    const counts: Record<string, number> = {};
    const layout = tableLayout('IPv4', true);
    await readCountings(kernel, layout, refusalCountings, noPause, ({ count, of }) => {
      if (of.kind === 'refusals') counts[of.reason] = count;
      return '';
    });
    const counted = {
      no_endpoints: 1,
      no_local_endpoints: 2,
      source_ranges: 2,
      no_such_port: 1,
      no_such_service: 2,
    };
    expect(counts).toEqual(countsTraffic ? counted : {});
  },
);

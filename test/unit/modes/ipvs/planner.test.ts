import { describe, expect, it } from 'vitest';
import { IP_VS_CONN_F } from '../../../../src/kernel/ipvs-ops.ts';
import { kernelOps } from '../../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../../src/kernel/records.ts';
import { ipvsMode } from '../../../../src/modes/ipvs/mode.ts';
import {
  defaultIPVSSettings,
  type Environment,
  type IPVSSettings,
  type ModeConfig,
} from '../../../../src/modes/mode.ts';
import { forwardingKey, type Service } from '../../../../src/state/types.ts';
import { batch } from '../../../conformance/ops.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import {
  address,
  cidr,
  http,
  ready,
  resolveOne,
  service,
  slice,
  slicePort,
} from '../../state/build.ts';
import { config } from '../config.ts';
import type { Forwardings } from '../nftables/cluster.ts';
import { Rig } from './rig.ts';

const node = address('192.168.0.1');

const environment: Environment = {
  serviceCIDRs: [],
  nodePortAddresses: [node],
  hostAddresses: [node],
};

function configOf(ipvs: Partial<IPVSSettings> = {}): ModeConfig {
  return { ...config, ipvs: { ...defaultIPVSSettings, ...ipvs } };
}

/** Service web on these endpoints, port 8080 of each. */
function web(
  endpoints: readonly string[],
  fields: Parameters<typeof service>[0] = {},
): Forwardings {
  const all = Object.fromEntries(endpoints.map((text) => [text, ready]));
  const one: Service = service(fields);
  const ports = [slicePort('http', 8080, one.ports.at(0)!.protocol)];
  const forwarding = resolveOne(one, [slice(all, { ports })]);
  return new Map([[forwardingKey(forwarding.servicePort), forwarding]]);
}

const a = '10.244.0.5';
const b = '10.244.1.6';

async function started(wanted: Forwardings, ipvs?: Partial<IPVSSettings>): Promise<Rig> {
  const rig = new Rig(configOf(ipvs), environment);
  await rig.start(wanted);
  return rig;
}

/** Lines about IPVS and addresses, in their order. */
function steps(script: string): string[] {
  return script
    .split('\n')
    .filter((line) => /^(ipvsadm|ip) /.test(line))
    .map((line) => line.replace(/ -m -w/, ''));
}

describe('a batch of mode ipvs', () => {
  it('adds real servers to a VIP before it binds the address', async () => {
    const rig = await started(new Map());
    rig.plan(web([a, b]));
    const script = rig.take();
    expect(steps(script)).toEqual([
      'ipvsadm -A -t 10.96.0.1:80 -s rr',
      `ipvsadm -a -t 10.96.0.1:80 -r ${a}:8080 1`,
      `ipvsadm -a -t 10.96.0.1:80 -r ${b}:8080 1`,
      'ip address add 10.96.0.1/32 dev kube-ipvs0',
    ]);
    expect(script.indexOf('add element')).toBeLessThan(script.indexOf('ipvsadm'));
    expect(script.lastIndexOf('add element')).toBeLessThan(script.indexOf('ipvsadm'));
  });

  it('removes the address before the virtual service, and its record last', async () => {
    const rig = await started(web([a]));
    rig.plan(new Map());
    const script = rig.take();
    expect(steps(script)).toEqual([
      'ip address delete 10.96.0.1/32 dev kube-ipvs0',
      'ipvsadm -D -t 10.96.0.1:80',
    ]);
    expect(script.indexOf('delete element')).toBeGreaterThan(script.indexOf('ipvsadm -D'));
  });

  it('adds the new endpoint before it removes the old one', async () => {
    const rig = await started(web([a]));
    rig.plan(web([b]));
    expect(steps(rig.take())).toEqual([
      `ipvsadm -a -t 10.96.0.1:80 -r ${b}:8080 1`,
      `ipvsadm -e -t 10.96.0.1:80 -r ${a}:8080 0`,
    ]);
  });
});

describe('a removed endpoint in mode ipvs', () => {
  const key = 'TCP 10.96.0.1:80';

  it('keeps its connections with weight 0, and is deleted when the last one has ended', async () => {
    const rig = await started(web([a, b]));
    rig.kernel.ipvs.traffic(key, `${a}:8080`, { activeConnections: 1 });
    rig.plan(web([b]));
    rig.take();
    expect(rig.planner.takeDeferred).toBeDefined();
    expect(await rig.drain()).toBe('');
    rig.kernel.ipvs.traffic(key, `${a}:8080`, { activeConnections: 0, inactiveConnections: 1 });
    expect(await rig.drain()).toBe('');
    rig.kernel.ipvs.traffic(key, `${a}:8080`, { inactiveConnections: 0 });
    expect(steps(await rig.drain())).toEqual([`ipvsadm -d -t 10.96.0.1:80 -r ${a}:8080`]);
    expect(rig.planner.takeDeferred).toBeUndefined();
  });

  it('is kept if the dump of its connections is interrupted', async () => {
    const rig = await started(web([a, b]));
    rig.plan(web([b]));
    rig.take();
    rig.kernel.interruptDumps();
    expect(await rig.drain()).toBe('');
    expect(rig.planner.takeDeferred).toBeDefined();
    expect(steps(await rig.drain())).toEqual([`ipvsadm -d -t 10.96.0.1:80 -r ${a}:8080`]);
  });

  it('continues to drain after a restart, which writes nothing', async () => {
    const rig = await started(web([a, b]));
    rig.kernel.ipvs.traffic(key, `${a}:8080`, { activeConnections: 1 });
    rig.plan(web([b]));
    rig.take();
    const { writes } = rig.kernel;
    await rig.crash(web([b]));
    expect(rig.kernel.writes).toBe(writes);
    expect(rig.planner.takeDeferred).toBeDefined();
    rig.kernel.ipvs.traffic(key, `${a}:8080`, { activeConnections: 0 });
    expect(steps(await rig.drain())).toEqual([`ipvsadm -d -t 10.96.0.1:80 -r ${a}:8080`]);
  });

  it('is deleted immediately if it serves UDP', async () => {
    const udp = { ports: [{ ...http, protocol: 'UDP' as const }] };
    const rig = await started(web([a, b], udp));
    rig.plan(web([b], udp));
    expect(steps(rig.take())).toEqual([`ipvsadm -d -u 10.96.0.1:80 -r ${a}:8080`]);
    expect(rig.planner.takeDeferred).toBeUndefined();
  });
});

it('an audit counts each difference of a virtual service and its real servers', async () => {
  const rig = await started(web([a, b]));
  const before = rig.state();
  const writer = new RecordWriter(kernelOps);
  const key = { family: 2, protocol: 6, address: address('10.96.0.1').bytes, port: 80 };
  const settings = { scheduler: 'lc', flags: 0, timeoutSeconds: 0, prefixLength: 32 };
  const how = { forwarding: IP_VS_CONN_F.MASQ, weight: 1, upperThreshold: 0, lowerThreshold: 0 };
  const server = (text: string) => {
    return { ...key, destination: address(text).bytes, destinationPort: 8080 };
  };
  writer.write('virtualServiceSet', { ...key, ...settings });
  writer.write('destinationDelete', server(a));
  writer.write('destinationSet', { ...server(b), ...how, weight: 7 });
  for (const last of [1, 2, 3]) {
    writer.write('destinationAdd', { ...server(`10.244.9.${last}`), ...how });
  }
  expect(rig.kernel.applyNow(writer.finish()).kind).toBe('applied');
  expect(await rig.audit()).toEqual({ missing: 1, wrong: 2, unwanted: 3 });
  await rig.drain();
  expect(rig.state()).toBe(before);
});

describe('virtual services of other programs', () => {
  const foreign = (kernel: FakeKernel, at: string, port: number): void => {
    const writer = new RecordWriter(kernelOps);
    const key = { family: 2, protocol: 6, address: address(at).bytes, port };
    const settings = { scheduler: 'wlc', flags: 0, timeoutSeconds: 0, prefixLength: 32 };
    writer.write('virtualServiceAdd', { ...key, ...settings });
    const server = { destination: address('172.16.0.1').bytes, destinationPort: 1 };
    const limits = { upperThreshold: 0, lowerThreshold: 0 };
    const how = { forwarding: IP_VS_CONN_F.DROUTE, weight: 7, ...limits };
    writer.write('destinationAdd', { ...key, ...server, ...how });
    expect(kernel.applyNow(writer.finish()).kind).toBe('applied');
  };
  const theirs = 'wlc flags 0x0 timeout 0 /32\n  -> 172.16.0.1:1 droute weight 7';

  it('are kept at addresses that are not on our link', async () => {
    const kernel = new FakeKernel();
    foreign(kernel, '192.168.0.1', 80);
    foreign(kernel, '203.0.113.9', 80);
    const rig = new Rig(configOf(), environment, kernel);
    await rig.start(web([a]));
    await rig.start(new Map());
    await ipvsMode.cleanup(kernel);
    expect(kernel.ipvs.text()).toContain(`TCP 192.168.0.1:80 ${theirs}`);
    expect(kernel.ipvs.text()).toContain(`TCP 203.0.113.9:80 ${theirs}`);
  });

  it('are kept in excludeCIDRs, even if a Service claims the same', async () => {
    const kernel = new FakeKernel();
    foreign(kernel, '10.96.0.1', 80);
    const rig = new Rig(configOf({ excludeCIDRs: [cidr('10.96.0.0/24')] }), environment, kernel);
    await rig.start(web([a]));
    rig.plan(web([a, b]));
    rig.take();
    rig.plan(new Map());
    rig.take();
    expect(kernel.ipvs.text()).toBe(`TCP 10.96.0.1:80 ${theirs}\n`);
  });

  it('are adopted if a Service claims the same: kube-proxy created them', async () => {
    const kernel = new FakeKernel();
    foreign(kernel, '10.96.0.1', 80);
    const rig = new Rig(configOf(), environment, kernel);
    await rig.start(web([a]));
    expect(kernel.ipvs.text()).toContain('TCP 10.96.0.1:80 rr');
    expect(kernel.ipvs.text()).toContain(`-> ${a}:8080 masq weight 1`);
  });

  it('are kept by a cleanup if our table is missing', async () => {
    const kernel = new FakeKernel();
    foreign(kernel, '10.96.0.1', 80);
    const before = kernel.ipvs.text();
    expect(await ipvsMode.owned(kernel)).toEqual([]);
    await ipvsMode.cleanup(kernel);
    expect(kernel.ipvs.text()).toBe(before);
  });
});

describe('an address of this machine in mode ipvs', () => {
  const onNode = { externalIPs: ['192.168.0.1'] };

  it('is not bound, is reported once with its Service, and serves the port of the Service', async () => {
    const rig = await started(new Map());
    rig.plan(web([a], onNode));
    const script = rig.take();
    expect(script).not.toContain('ip address add 192.168.0.1');
    expect(script).toContain('ipvsadm -A -t 192.168.0.1:80');
    expect(rig.planner.takeReport?.().refused).toMatchObject([
      { servicePort: { namespace: 'ns', name: 'web' }, address: node },
    ]);
    rig.plan(web([a, b], onNode));
    expect(rig.planner.takeReport?.().refused).toEqual([]);
  });
});

describe('cleanup of mode ipvs', () => {
  it('removes link, virtual services and table, and lists them with --dry-run', async () => {
    const ports = [{ ...http, nodePort: 30080 }];
    const rig = await started(web([a], { type: 'NodePort', ports }));
    const objects = (await ipvsMode.owned(rig.kernel)).map(({ object }) => object);
    expect(objects).toEqual([
      'table ip fairlead-ipvs',
      '2 virtual services of IPv4',
      'interface kube-ipvs0',
    ]);
    await ipvsMode.cleanup(rig.kernel);
    expect(rig.state().trim()).toBe('no link');
  });

  it('removes what is left where another program has deleted the link', async () => {
    const rig = await started(web([a]));
    rig.kernel.foreign(batch({ kind: 'linkDelete', link: 'kube-ipvs0' }));
    await ipvsMode.cleanup(rig.kernel);
    expect(rig.state().trim()).toBe('no link');
  });
});

describe('the probe of mode ipvs', () => {
  it('names IPVS, the scheduler and dummy links if missing', async () => {
    const kernel = new FakeKernel();
    kernel.ipvs.schedulers.delete('mh');
    kernel.links.types.delete('dummy');
    const missing = await ipvsMode.probe(kernel, { ...defaultIPVSSettings, scheduler: 'mh' });
    expect(missing.map(({ feature }) => feature)).toEqual([
      'scheduler mh of IPVS (ENOENT)',
      'dummy links (EOPNOTSUPP)',
    ]);
    kernel.ipvs.present = false;
    expect(await ipvsMode.probe(kernel)).toMatchObject([{ feature: 'IPVS' }]);
  });
});

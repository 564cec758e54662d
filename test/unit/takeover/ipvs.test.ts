/** The leftovers of kube-proxy's ipvs mode in addition to rules. */
import { describe, expect, it } from 'vitest';
import { IPPROTO } from '../../../src/kernel/nft/constants.ts';
import type { KernelOp } from '../../../src/kernel/ops.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import type { ProxyMode } from '../../../src/modes/proxy-mode.ts';
import { parseAddress } from '../../../src/net/address.ts';
import { batch } from '../../conformance/ops.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { Scene } from './scene.ts';

const link = 'kube-ipvs0';

function parts(text: string) {
  const { bytes, family } = parseAddress(text)!;
  return { family: family === 'IPv4' ? 2 : 10, bytes, bits: 8 * bytes.length };
}

function bind(to: string, text: string): KernelOp {
  const { family, bytes, bits } = parts(text);
  const at = { family, link: to, index: 0, prefixLength: bits, addresses: bytes, flags: 0 };
  return { kind: 'addressesAdd', ...at };
}

function key(protocol: keyof typeof IPPROTO, text: string, port: number) {
  const { family, bytes } = parts(text);
  return { family, protocol: IPPROTO[protocol], address: bytes, port };
}

function serve(...[protocol, text, port]: Parameters<typeof key>): KernelOp[] {
  const service = key(protocol, text, port);
  const settings = { scheduler: 'rr', flags: 0, timeoutSeconds: 0, prefixLength: parts(text).bits };
  const destination = parts(service.family === 2 ? '10.244.0.7' : 'fd00:244::7').bytes;
  const limits = { forwarding: 0, weight: 1, upperThreshold: 0, lowerThreshold: 0 };
  const to = { destination, destinationPort: 8080 };
  return [
    { kind: 'virtualServiceAdd', ...service, ...settings },
    { kind: 'destinationAdd', ...service, ...to, ...limits },
  ];
}

/** Two VIPs, a node port, and what belongs to others. */
function withKubeProxy(): FakeKernel {
  const kernel = new FakeKernel();
  kernel.foreign(
    batch(
      { kind: 'linkAdd', link, type: 'dummy' },
      { kind: 'linkAdd', link: 'eth0', type: 'bridge' },
      ...[bind('eth0', '192.168.0.1'), bind(link, '10.96.0.1'), bind(link, 'fd00:96::1')],
      ...serve('TCP', '10.96.0.1', 443),
      ...serve('UDP', 'fd00:96::1', 53),
      ...serve('TCP', '192.168.0.1', 30080),
      // Other programs': at an address of the node, with a port that is not a node port; and
      // elsewhere.
      ...serve('TCP', '192.168.0.1', 8443),
      ...serve('TCP', '203.0.113.9', 80),
    ),
  );
  const sets = { 'KUBE-NODE-PORT-TCP': [30080], 'KUBE-6-LOAD-BALANCER-SOURCE-CID': [], mine: [1] };
  for (const [name, ports] of Object.entries(sets)) {
    kernel.ipsets.sets.set(name, { type: 'bitmap:port', references: 0, ports });
  }
  return kernel;
}

function heads(kernel: FakeKernel): string[] {
  return kernel.ipvs
    .text()
    .split('\n')
    .flatMap((line) => /^\S+ \S+/.exec(line)?.[0] ?? [])
    .sort();
}

const others = ['TCP 192.168.0.1:8443', 'TCP 203.0.113.9:80'];

describe("taking over from kube-proxy's ipvs mode", () => {
  it('removes its virtual services, interface and sets, and nothing else', async () => {
    const kernel = withKubeProxy();
    const scene = new Scene(kernel);
    await scene.clock.pass(0);
    expect(heads(kernel)).toEqual(others);
    expect(kernel.links.texts(link)).toBeUndefined();
    expect(kernel.links.texts('eth0')).toEqual(['192.168.0.1/32']);
    expect([...kernel.ipsets.sets.keys()]).toEqual(['mine']);
    expect(scene.events).toMatchObject([
      { kind: 'IPVS', leftovers: { busy: 0, foreign: 2, interface: true } },
    ]);
    await scene.clock.pass(600_000);
    expect(scene.events).toHaveLength(1);
  });

  it('waits until the programmed state is verified', async () => {
    const kernel = withKubeProxy();
    const scene = new Scene(kernel);
    scene.verified = 'waiting';
    await scene.clock.pass(600_000);
    expect(heads(kernel)).toHaveLength(5);
    scene.release();
    await scene.clock.pass(0);
    expect(heads(kernel)).toEqual(others);
  });

  it('keeps what has connections until they have ended, and its address', async () => {
    const kernel = withKubeProxy();
    kernel.ipvs.traffic('TCP 10.96.0.1:443', '10.244.0.7:8080', { activeConnections: 1 });
    const scene = new Scene(kernel);
    await scene.clock.pass(0);
    expect(heads(kernel)).toEqual(['TCP 10.96.0.1:443', ...others]);
    expect(kernel.links.texts(link)).toEqual(['10.96.0.1/32']);
    expect(scene.events).toMatchObject([{ kind: 'IPVS', leftovers: { busy: 1 } }]);
    await scene.clock.pass(120_000);
    expect(scene.events).toHaveLength(1);
    kernel.ipvs.traffic('TCP 10.96.0.1:443', '10.244.0.7:8080', { activeConnections: 0 });
    await scene.clock.pass(60_000);
    expect(heads(kernel)).toEqual(others);
    expect(kernel.links.texts(link)).toBeUndefined();
    expect(scene.events).toMatchObject([{}, { kind: 'IPVS', leftovers: { interface: true } }]);
  });

  it('keeps sets that rules refer to, and reports it', async () => {
    const kernel = withKubeProxy();
    const set = { type: 'hash:ip,port', references: 1, ports: [] };
    kernel.ipsets.sets.set('KUBE-CLUSTER-IP', set);
    const scene = new Scene(kernel);
    await scene.clock.pass(600_000);
    expect([...kernel.ipsets.sets.keys()].sort()).toEqual(['KUBE-CLUSTER-IP', 'mine']);
    expect(scene.events).toMatchObject([{ leftovers: { keptSets: ['KUBE-CLUSTER-IP'] } }]);
  });

  it('changes nothing if the interface is missing, or is not a dummy link', async () => {
    const kernel = new FakeKernel();
    const bridge = { kind: 'linkAdd', link, type: 'bridge' } as const;
    kernel.foreign(batch(bridge, bind(link, '10.96.0.1'), ...serve('TCP', '10.96.0.1', 443)));
    const scene = new Scene(kernel);
    await scene.clock.pass(1000);
    expect(heads(kernel)).toEqual(['TCP 10.96.0.1:443']);
    expect([kernel.links.texts(link), scene.events]).toEqual([['10.96.0.1/32'], []]);
  });

  it('leaves everything except the sets to our ipvs mode, which adopts it', async () => {
    const kernel = withKubeProxy();
    const scene = new Scene(kernel, 'ipvs');
    await scene.clock.pass(1000);
    expect(heads(kernel)).toHaveLength(5);
    expect(kernel.links.texts(link)).toHaveLength(2);
    expect([...kernel.ipsets.sets.keys()]).toEqual(['mine']);
  });

  it('removes sets alongside our ipvs mode when no rule refers to them any more', async () => {
    const kernel = withKubeProxy();
    const set = { type: 'hash:ip,port', ports: [] };
    kernel.ipsets.sets.set('KUBE-CLUSTER-IP', { ...set, references: 1 });
    const scene = new Scene(kernel, 'ipvs');
    await scene.clock.pass(1000);
    expect([...kernel.ipsets.sets.keys()].sort()).toEqual(['KUBE-CLUSTER-IP', 'mine']);
    kernel.ipsets.sets.set('KUBE-CLUSTER-IP', { ...set, references: 0 });
    await scene.clock.pass(60_000);
    expect([...kernel.ipsets.sets.keys()]).toEqual(['mine']);
  });

  it('waits for the leftovers of our own ipvs mode, which look the same', async () => {
    const kernel = withKubeProxy();
    let isGone = false;
    const ipvs: ProxyMode = {
      ...nftablesMode,
      name: 'ipvs',
      usesIPVS: true,
      owned: async () => (isGone ? [] : [{ object: `interface ${link}`, because: 'test' }]),
      cleanup: async () => {
        if (!isGone) throw new Error('busy');
      },
    };
    const scene = new Scene(kernel, 'nftables', { modes: [nftablesMode, ipvs] });
    await scene.clock.pass(1000);
    expect(heads(kernel)).toHaveLength(5);
    isGone = true;
    await scene.clock.pass(600_000);
    expect(heads(kernel)).toEqual(others);
  });

  it('works if the kernel has neither IPVS nor ipset any more', async () => {
    const kernel = new FakeKernel();
    kernel.foreign(batch({ kind: 'linkAdd', link, type: 'dummy' }, bind(link, '10.96.0.1')));
    kernel.ipvs.present = false;
    const scene = new Scene(kernel);
    await scene.clock.pass(0);
    expect(kernel.links.texts(link)).toBeUndefined();
    expect(scene.kinds()).toEqual(['IPVS']);
  });
});

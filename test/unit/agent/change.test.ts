/** What changes while the proxy runs: its Node, its configuration. */
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Config } from '../../../src/config/config.ts';
import { hostFiles } from '../../../src/host/files.ts';
import { resources } from '../../../src/state/change.ts';
import type { Node } from '../../../src/state/types.ts';
import { contentOf, machineRoot } from '../host/machine.ts';
import { address, http, node, ready, service, slice } from '../state/build.ts';
import { quiet } from '../sync/double.ts';
import { configOf, Running, web } from './running.ts';

const objects = [
  ...web,
  {
    kind: 'service',
    service: service({
      name: 'outside',
      clusterIPs: ['10.96.0.9'],
      externalIPs: ['192.0.2.9'],
      loadBalancerIPs: ['192.0.2.10'],
      loadBalancerSourceRanges: ['10.1.0.0/16'],
      ports: [{ ...http, nodePort: 30080 }],
    }),
  },
  {
    kind: 'slice',
    slice: slice({ '10.244.0.7': ready }, { key: 'ns/outside-1', service: 'ns/outside' }),
  },
] as const;

async function running(config: Config, its: Partial<Node> = {}): Promise<Running> {
  const app = await new Running(config).start();
  onTestFinished(() => app.stop());
  app.source.say({ kind: 'node', node: node(its) }, ...objects);
  app.source.listed(...resources);
  await quiet();
  expect(app.app.upToDate).toBe(true);
  return app;
}

const manifests = '--manifests=/anywhere';

describe('a changed configuration', () => {
  it.each<[string, string[], string[]]>([
    ['masquerading all', [], ['--masquerade-all']],
    ['another masquerade bit', [], ['--iptables-masquerade-bit=3']],
    ['another cluster CIDR', ['--cluster-cidr=10.0.0.0/8'], ['--cluster-cidr=10.244.0.0/16']],
    ['another way to tell pods', [], ['--detect-local-mode=NodeCIDR']],
    ['node ports at another address', [], ['--nodeport-addresses=10.0.0.0/8']],
    ['fewer external IPs', [], ['--external-ip-cidrs=203.0.113.0/24']],
    ['external IPs of other namespaces', [], ['--external-ip-namespaces=ns']],
    ['other periods', [], ['--iptables-sync-period=7s', '--iptables-min-sync-period=3s']],
  ])('leaves the kernel in the same state as a start with it: %s', async (_, before, after) => {
    const [old, next] = [await configOf(manifests, ...before), await configOf(manifests, ...after)];
    const its = { podCIDRs: ['10.244.0.0/24', 'fd00:244::/64'] };
    const changed = await running(old, its);
    const fresh = await running(next, its);
    await changed.app.reconfigure(next);
    expect(changed.app.upToDate).toBe(false);
    await quiet();
    // What packets may still need goes later.
    for (const app of [changed, fresh]) await app.clock.pass(5000);
    expect(changed.app.upToDate).toBe(true);
    expect(changed.kernel.ruleset()).toBe(fresh.kernel.ruleset());
    changed.source.say({ kind: 'service-gone', key: 'ns/web' });
    await quiet();
    await changed.clock.pass(5000);
    expect(changed.kernel.ruleset()).not.toContain('10.96.0.1 .');
  });

  it('removes external IPs that are no longer allowed, and reports them', async () => {
    const app = await running(await configOf(manifests));
    expect(app.kernel.ruleset()).toContain('192.0.2.9 .');
    await app.app.reconfigure(await configOf(manifests, '--external-ip-cidrs=203.0.113.0/24'));
    await quiet();
    await app.clock.pass(5000);
    expect(app.kernel.ruleset()).not.toContain('192.0.2.9 .');
    expect(app.kernel.ruleset()).toContain('192.0.2.10 .');
    expect(app.logged).toContain('External IP is not allowed');
  });

  it('does not touch the kernel if it concerns something else', async () => {
    const app = await running(await configOf(manifests));
    const { writes } = app.kernel;
    const next = await configOf(manifests, '-v=4', '--conntrack-min=5');
    await app.app.reconfigure(next);
    await quiet();
    expect(app.kernel.writes).toBe(writes);
    app.source.say({ kind: 'service-gone', key: 'ns/web' });
    await quiet();
    expect(app.logged).toContain('Sync queued');
  });

  it('sets sysctls, and is rejected as a whole if it cannot', async () => {
    const path = '/proc/sys/net/netfilter/nf_conntrack_udp_timeout';
    // A folder can neither be read nor written; one that is missing would be a warning.
    const folder = { [`${path}_stream/x`]: '' };
    const root = machineRoot({ [path]: '30\n', '/proc/self/oom_score_adj': '0\n', ...folder });
    const quietly = ['--conntrack-max-per-core=0', '--conntrack-tcp-timeout-established=0'];
    const flags = [manifests, ...quietly, '--conntrack-tcp-timeout-close-wait=0'];
    const app = new Running(await configOf(...flags));
    await app.start({ host: hostFiles(root) });
    onTestFinished(() => app.stop());
    expect(contentOf(root, path)).toBe('30\n');
    expect(contentOf(root, '/proc/self/oom_score_adj')).toBe('-999');
    const udp = '--conntrack-udp-timeout=7s';
    await app.app.reconfigure(await configOf(...flags, udp, '--oom-score-adj=-5'));
    expect(contentOf(root, path)).toBe('7');
    expect(contentOf(root, '/proc/self/oom_score_adj')).toBe('-5');
    const refused = await configOf(...flags, '--conntrack-udp-timeout-stream=9s', '-v=4');
    await expect(app.app.reconfigure(refused)).rejects.toThrow(
      'nf_conntrack_udp_timeout_stream to 9',
    );
    expect(app.logged).not.toContain('Sync queued');
  });

  it('removes the rule against packets that connection tracking now accepts', async () => {
    const path = '/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal';
    const root = machineRoot({ [path]: '0\n', '/proc/self/oom_score_adj': '0\n' });
    const quietly = ['--conntrack-max-per-core=0', '--conntrack-tcp-timeout-established=0'];
    const others = ['--conntrack-tcp-timeout-close-wait=0', '--iptables-localhost-nodeports=false'];
    const flags = [manifests, '--proxy-mode=iptables', ...quietly, ...others];
    const app = new Running(await configOf(...flags));
    await app.start({ host: hostFiles(root) });
    onTestFinished(() => app.stop());
    await quiet();
    app.source.say(...objects);
    app.source.listed(...resources);
    await quiet();
    expect(app.kernel.ruleset()).toContain('--ctstate INVALID');
    await app.app.reconfigure(await configOf(...flags, '--conntrack-tcp-be-liberal'));
    await quiet();
    await app.clock.pass(5000);
    expect(contentOf(root, path)).toBe('1');
    expect(app.kernel.ruleset()).not.toContain('--ctstate INVALID');
  });

  it('takes effect without a file descriptor, also if there was none since the start', async () => {
    const path = '/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal';
    const files = hostFiles(machineRoot({ [path]: '1\n', '/proc/self/oom_score_adj': '0\n' }));
    let isShort = false;
    const read = (of: string): string | undefined => {
      if (isShort && /be_liberal|osrelease/.test(of))
        throw new Error('EMFILE: too many open files');
      return files.read(of);
    };
    const quietly = ['--conntrack-max-per-core=0', '--conntrack-tcp-timeout-established=0'];
    const others = ['--conntrack-tcp-timeout-close-wait=0', '--iptables-localhost-nodeports=false'];
    const connectTime = { directory: '/nowhere/bpf/fairlead', cgroup: '/nowhere/cgroup' };
    const flags = [
      manifests,
      '--proxy-mode=iptables',
      '--connect-time=host',
      ...quietly,
      ...others,
    ];
    const app = new Running(await configOf(...flags));
    await app.start({ host: { ...files, read }, connectTime });
    onTestFinished(() => app.stop());
    isShort = true;
    await quiet();
    app.source.say(...objects);
    app.source.listed(...resources);
    await quiet();
    expect(app.kernel.ruleset()).not.toContain('--ctstate INVALID');
    await app.app.reconfigure(await configOf(...flags, '--masquerade-all'));
    await quiet();
    await app.clock.pass(5000);
    expect(app.logged).toContain('Could not read sysctl; taking it as it was');
    expect(app.kernel.ruleset()).not.toContain('--ctstate INVALID');
  });

  it('is rejected if it does not fit the node', async () => {
    const app = await running(await configOf(manifests));
    const before = app.kernel.ruleset();
    const wrong = await configOf(
      manifests,
      '--cluster-cidr=fd00::/64',
      '--detect-local-mode=NodeCIDR',
    );
    app.source.say({ kind: 'node', node: node({ podCIDRs: ['fd00::/80'] }) });
    await expect(app.app.reconfigure(wrong)).rejects.toThrow(
      'kube-proxy configuration is incorrect',
    );
    await quiet();
    expect(app.kernel.ruleset()).toBe(before);
  });
});

describe('a changed Node', () => {
  it('leaves the kernel in the same state as a start with its new pod CIDRs', async () => {
    const config = await configOf(manifests, '--detect-local-mode=NodeCIDR');
    const changed = await running(config, { podCIDRs: ['10.244.1.0/24'] });
    const fresh = await running(await configOf(manifests, '--detect-local-mode=NodeCIDR'), {
      podCIDRs: ['10.244.2.0/24'],
    });
    const before = changed.kernel.ruleset();
    changed.source.say({ kind: 'node', node: node({ podCIDRs: ['10.244.2.0/24'] }) });
    await quiet();
    for (const app of [changed, fresh]) await app.clock.pass(5000);
    expect(before).toContain('10.244.1.0/24');
    expect(changed.kernel.ruleset()).toBe(fresh.kernel.ruleset());
    expect(changed.lines).toContainEqual(
      expect.objectContaining({ from: '10.244.1.0/24', to: '10.244.2.0/24' }),
    );
    expect(changed.outcome).toBeUndefined();
  });

  it('keeps the rules if its pod CIDRs are removed or do not fit', async () => {
    const config = await configOf(manifests, '--detect-local-mode=NodeCIDR');
    const app = await running(config, { podCIDRs: ['10.244.1.0/24'] });
    const before = app.kernel.ruleset();
    app.source.say({ kind: 'node', node: node({ podCIDRs: [] }) });
    await quiet();
    app.source.say({ kind: 'node', node: node({ podCIDRs: ['fd00::/80'] }) });
    await quiet();
    expect(app.kernel.ruleset()).toBe(before);
    expect(app.logged).toContain('PodCIDRs changed for the node; keeping the rules');
    app.source.say({ kind: 'node-gone', name: 'node-a' });
    await quiet();
    expect(app.kernel.ruleset()).toBe(before);
  });

  it('moves node ports to its new addresses', async () => {
    const config = await configOf(manifests, '--nodeport-addresses=primary');
    const changed = await running(config, { addresses: [address('10.0.0.5')] });
    const fresh = await running(await configOf(manifests, '--nodeport-addresses=primary'), {
      addresses: [address('10.1.0.6')],
    });
    changed.source.say({ kind: 'node', node: node({ addresses: [address('10.1.0.6')] }) });
    await quiet();
    for (const app of [changed, fresh]) await app.clock.pass(5000);
    expect(changed.kernel.ruleset()).toBe(fresh.kernel.ruleset());
    expect(changed.lines).toContainEqual(
      expect.objectContaining({ from: '10.0.0.5', to: '10.1.0.6' }),
    );
  });
});

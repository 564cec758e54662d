import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { describeError } from '../../../src/cli/errors.ts';
import type { ApplyResult } from '../../../src/kernel/kernel.ts';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { resources } from '../../../src/state/change.ts';
import {
  address,
  drainingLocal,
  node,
  ready,
  readyLocal,
  service,
  slice,
  slicePort,
} from '../state/build.ts';
import { quiet } from '../sync/double.ts';
import { ClosableKernel, configOf, Running, started, web } from './running.ts';

describe('the proxy', () => {
  it('programs what the source lists, follows it, and leaves it in place when it stops', async () => {
    const app = await started('--manifests=/anywhere');
    app.source.say(...web);
    app.source.listed('nodes', 'servicecidrs', 'services');
    await quiet();
    const { chains } = app.kernel.table(NFPROTO.IPv4, 'fairlead')!;
    expect([...chains.values()].filter(({ base }) => base !== undefined)).toEqual([]);
    expect(app.services).toEqual([]);
    app.source.listed('endpointslices');
    await quiet();
    expect(app.services).toEqual(['10.96.0.1 . tcp . 80 comment "ns/web:http" : goto cluster-2-e']);

    await app.clock.pass(2000);
    app.source.say({
      kind: 'slice',
      slice: slice({ '10.244.0.2': ready, '10.244.0.3': ready, '10.244.0.4': ready }),
    });
    await quiet();
    expect(app.services).toEqual(['10.96.0.1 . tcp . 80 comment "ns/web:http" : goto cluster-4-e']);
    await app.stop();
    expect(app.outcome).toBe('stopped');
    expect(app.kernel.closed).toBe(true);
    expect(app.services).toEqual(['10.96.0.1 . tcp . 80 comment "ns/web:http" : goto cluster-4-e']);
  });

  it('deletes conntrack entries to endpoints that have gone', async () => {
    const app = await started('--manifests=/anywhere');
    const ports = [{ name: 'dns', protocol: 'UDP', port: 53, nodePort: 30053 }] as const;
    const endpointPorts = [slicePort('dns', 53, 'UDP')];
    const right = {
      protocol: 'UDP',
      from: '172.16.0.9:4001',
      answeredBy: '10.244.0.2:53',
    } as const;
    const wrong = { ...right, from: '172.16.0.9:4002', answeredBy: '10.244.0.3:53' };
    // Node ports are at every address of this machine, but for loopback.
    for (const to of ['10.96.0.1:53', '192.168.7.7:30053', '127.0.0.1:30053']) {
      app.conntrack.add({ ...right, to }, { ...wrong, to });
    }
    app.source.say(
      { kind: 'service', service: service({ ports, type: 'NodePort' }) },
      { kind: 'slice', slice: slice({ '10.244.0.2': ready }, { ports: endpointPorts }) },
    );
    app.source.listed(...resources);
    await quiet();
    await app.clock.pass(0);
    expect(app.conntrack.texts).toEqual([
      'UDP 172.16.0.9:4001 > 10.96.0.1:53, reply 10.244.0.2:53 > 172.16.0.9:4001',
      'UDP 172.16.0.9:4001 > 127.0.0.1:30053, reply 10.244.0.2:53 > 172.16.0.9:4001',
      'UDP 172.16.0.9:4001 > 192.168.7.7:30053, reply 10.244.0.2:53 > 172.16.0.9:4001',
      'UDP 172.16.0.9:4002 > 127.0.0.1:30053, reply 10.244.0.3:53 > 172.16.0.9:4002',
    ]);
    const metrics = await (await app.get('metrics', '/metrics')).text();
    const deleted = 'kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"}';
    expect(metrics).toContain(`${deleted} 2\n`);
    await app.stop();
  });

  it('serves health and metrics', async () => {
    const app = await started('--manifests=/anywhere');
    expect((await app.get('healthz', '/livez')).status).toBe(200);
    expect((await app.get('healthz', '/healthz')).status).toBe(503);
    app.source.say({ kind: 'node', node: node() }, ...web);
    app.source.listed(...resources);
    await quiet();
    expect((await app.get('healthz', '/healthz')).status).toBe(200);
    expect(await (await app.get('metrics', '/proxyMode')).text()).toBe('nftables');
    const metrics = await (await app.get('metrics', '/metrics')).text();
    expect(metrics).toContain('fairlead_service_ports{ip_family="IPv4"} 1\n');
    expect(metrics).toContain('kubeproxy_sync_proxy_rules_service_changes_total 1\n');
    expect(metrics).toMatch(/^kubernetes_build_info\{.*git_version="v1.35.4".*\} 1$/m);
    expect(metrics).toMatch(/fairlead_kernel_writes_total\{ip_family="IPv4",purpose="start"\} \d+/);
    app.source.say({ kind: 'node-gone', name: 'node-a' });
    expect((await app.get('healthz', '/healthz')).status).toBe(503);
    await app.stop();
  });

  it('answers on health-check node ports from when the rules are in force until it stops', async () => {
    const { port } = (await configOf()).healthzBindAddress!;
    const flags = ['--manifests=/anywhere', '--nodeport-addresses=127.0.0.0/8'];
    const app = await started(...flags);
    const status = () =>
      fetch(`http://127.0.0.1:${port}/`).then(
        (response) => response.status,
        () => 'refused',
      );
    const balanced = service({
      type: 'LoadBalancer',
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: port,
    });
    app.source.say({ kind: 'service', service: balanced });
    app.source.say({ kind: 'slice', slice: slice({ '10.244.0.2': readyLocal }) });
    await quiet();
    expect(await status()).toBe('refused');
    app.source.listed(...resources);
    await quiet();
    expect(await status()).toBe(200);
    app.source.say({ kind: 'slice', slice: slice({ '10.244.0.2': drainingLocal }) });
    await quiet();
    expect(await status()).toBe(503);
    await app.stop();
    expect(await status()).toBe('refused');
  });

  it('ends with the reason if a source can never work', async () => {
    const app = await started('--manifests=/anywhere');
    app.source.fail(new Error('manifests directory /anywhere: does not exist'));
    await quiet();
    expect(app.outcome).toEqual(new Error('manifests directory /anywhere: does not exist'));
    expect(app.kernel.closed).toBe(true);
  });

  it('ends if the primary family is missing', async () => {
    const config = await configOf('--manifests=/anywhere');
    const app = await new Running(config).start({ families: () => ['IPv4'] });
    app.source.say({ kind: 'node', node: node({ addresses: [address('fd00::1')] }) });
    app.source.listed(...resources);
    await quiet();
    expect(String(app.outcome)).toContain('no support for primary IP family "IPv6"');
  });

  it('ends if it cannot listen and bindAddressHardFail is set', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => taken.once('listening', resolve));
    const { port } = taken.address() as AddressInfo;
    const flags = ['--manifests=/anywhere', '--bind-address-hard-fail', `--healthz-port=${port}`];
    const app = await started(...flags);
    for (let i = 0; i < 20 && app.outcome === undefined; i += 1) await quiet();
    expect(String(app.outcome)).toContain(`cannot serve on 127.0.0.1:${port}: listen EADDRINUSE`);
    taken.close();
  });
});

describe('the proxy that waits for its Node', () => {
  it('continues without addresses of the Node after 30 seconds', async () => {
    const app = await started('--master=http://127.0.0.1:1');
    app.source.say(...web);
    app.source.listed(...resources);
    await app.clock.pass(29_999);
    expect(app.services).toEqual([]);
    await app.clock.pass(1);
    expect(app.services).toHaveLength(1);
    expect(app.logged).toContain('Timed out waiting for node to exist');
    expect(app.lines).toContainEqual(
      expect.objectContaining({
        node: 'node-a',
        msg: expect.stringMatching(/^Waiting for the Node to exist: .*--hostname-override/),
      }),
    );
    await app.stop();
  });

  it('does not call the Node missing before nodes are listed, and waits no longer for that', async () => {
    const app = await started('--master=http://127.0.0.1:1');
    app.source.say(...web);
    app.source.listed('services', 'endpointslices');
    await app.clock.pass(29_999);
    expect(app.services).toEqual([]);
    const missing = expect.stringContaining('Waiting for the Node to exist');
    expect(app.logged).not.toContainEqual(missing);
    await app.clock.pass(1);
    expect(app.services).toHaveLength(1);
    await app.stop();
  });

  it('continues as soon as the Node has an address', async () => {
    const app = await started('--master=http://127.0.0.1:1');
    app.source.say(...web, { kind: 'node', node: node({ addresses: [] }) });
    app.source.listed(...resources);
    await app.clock.pass(5000);
    expect(app.services).toEqual([]);
    app.source.say({ kind: 'node', node: node() });
    await quiet();
    expect(app.services).toHaveLength(1);
    await app.stop();
  });

  it('fails after five more minutes without the pod CIDRs that its settings require', async () => {
    const app = await started('--manifests=/anywhere', '--detect-local-mode=NodeCIDR');
    app.source.say({ kind: 'node', node: node() });
    app.source.listed(...resources);
    await app.clock.pass(299_999);
    expect(app.outcome).toBeUndefined();
    await app.clock.pass(1);
    expect(app.outcome).toEqual(
      new Error('timeout waiting for PodCIDR allocation on node "node-a"'),
    );
  });
});

describe('a start that cannot succeed reports the cause and the remedy in one line', () => {
  /** A kernel that refuses each batch so. */
  class Refusing extends ClosableKernel {
    readonly #failure: { code: string; op: number };

    constructor(code: string, op: number) {
      super();
      this.#failure = { code, op };
    }

    override async apply(): Promise<ApplyResult> {
      const message = this.#failure.code;
      const failures = [{ ...this.#failure, entry: undefined, message }];
      return { kind: 'failed', failures, partly: false };
    }
  }

  async function failure(kernel: ClosableKernel, ...flags: string[]): Promise<string> {
    const app = await new Running(await configOf('--manifests=/x', ...flags)).start({ kernel });
    return describeError(app.outcome);
  }

  it('without CAP_NET_ADMIN', async () => {
    expect(await failure(new Refusing('EPERM', 0))).toMatch(
      /^CAP_NET_ADMIN is needed: run as root or add the capability \(nft.probe .*EPERM\)\)$/,
    );
  });

  it('on a kernel that lacks a feature', async () => {
    const text = await failure(new Refusing('EOPNOTSUPP', 0));
    expect(text).toMatch(/^no proxy mode can run: nftables needs what this kernel lacks: /);
    expect(text).toContain(' nf_tables (EOPNOTSUPP): load module nf_tables ');
  });

  it('when no mode can run, not even the last one', async () => {
    const kernel = new ClosableKernel();
    kernel.links.types.clear();
    expect(await failure(kernel, '--proxy-mode=userspace')).toMatch(
      /^no proxy mode can run: userspace needs what this kernel lacks: dummy links or bridges /,
    );
  });
});

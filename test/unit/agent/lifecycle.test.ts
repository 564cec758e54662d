/** Starting: which mode, what is set up, and what users see. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { hostFiles } from '../../../src/host/files.ts';
import type { ApplyResult } from '../../../src/kernel/kernel.ts';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import type { ModeName } from '../../../src/modes/mode.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import type { ProxyMode } from '../../../src/modes/proxy-mode.ts';
import { resources } from '../../../src/state/change.ts';
import { contentOf, machineRoot } from '../host/machine.ts';
import { address, node, service } from '../state/build.ts';
import { quiet } from '../sync/double.ts';
import {
  ClosableKernel,
  configOf,
  listening,
  Running,
  SpokenSource,
  started,
  web,
} from './running.ts';

/** The nftables mode under other names, able to run or not. */
function modes(able: Partial<Record<ModeName, boolean>>): ReadonlyMap<ModeName, ProxyMode> {
  const entries = Object.entries(able) as [ModeName, boolean][];
  return new Map(
    entries.map(([name, can]) => {
      const missing = [{ feature: `what ${name} needs`, advice: 'load it' }];
      return [name, { ...nftablesMode, name, probe: async () => (can ? [] : missing) }];
    }),
  );
}

describe('falling back to another mode', () => {
  it('causes one log line, one Event and one count per step', async () => {
    const { told, openEvents } = listening();
    const app = new Running(await configOf('--manifests=/anywhere'));
    await app.start({ openEvents, modes: modes({ nftables: false, iptables: true }) });
    app.source.say({ kind: 'node', node: node() }, ...web);
    app.source.listed(...resources);
    await quiet();
    expect(await (await app.get('metrics', '/proxyMode')).text()).toBe('iptables');
    const metrics = await (await app.get('metrics', '/metrics')).text();
    expect(metrics).toContain('fairlead_mode_fallbacks_total{from="nftables",to="iptables"} 1\n');
    const reason = 'needs what this kernel lacks: what nftables needs: load it';
    expect(app.lines.filter(({ msg }) => msg === 'Falling back to another mode')).toEqual([
      expect.objectContaining({ level: 'warn', from: 'nftables', to: 'iptables', reason }),
    ]);
    await app.stop();
    expect(told.filter((event) => event.startsWith('ProxyModeFallback'))).toEqual([
      `ProxyModeFallback about Node node-a (node-a): mode nftables ${reason}; mode iptables is next`,
    ]);
  });
});

describe('Events report', () => {
  it('that the proxy starts, once it knows its node', async () => {
    const { told, openEvents } = listening();
    const app = await new Running(await configOf('--master=http://127.0.0.1:1')).start({
      openEvents,
    });
    await quiet();
    expect(told).toEqual([]);
    app.source.say({ kind: 'node', node: node() });
    app.source.listed(...resources);
    await quiet();
    expect(told).toEqual(['Starting about Node node-a (node-a): ']);
    await app.stop();
  });

  it('which Service does not get what it asks for, and why', async () => {
    const { told, openEvents } = listening();
    const app = await new Running(await configOf('--manifests=/anywhere')).start({ openEvents });
    const thief = service({ name: 'thief', uid: 'uid-2', createdMs: 5, clusterIPs: ['10.96.0.1'] });
    app.kernel.failNext({ code: 'EINVAL', forKey: '10.96.0.7', times: Number.POSITIVE_INFINITY });
    app.source.say(...web, { kind: 'service', service: thief });
    const odd = service({ name: 'odd', uid: 'uid-3', clusterIPs: ['10.96.0.7'] });
    app.source.say({ kind: 'service', service: odd });
    const other = service({
      namespace: 'tenant',
      name: 'other',
      uid: 'uid-4',
      createdMs: 6,
      clusterIPs: ['10.96.0.1'],
    });
    app.source.say({ kind: 'service', service: other });
    app.source.listed(...resources);
    app.source.trouble('Service ns/web', 'spec.externalIPs[0]', 'is not an IP address: "x"');
    app.source.trouble('Service ns/web', 'spec.sessionAffinity', 'must be None or ClientIP');
    app.source.trouble('endpointslices watch', undefined, 'connection refused');
    await app.clock.pass(33_000);
    await app.stop();
    const [first, ...others] = told.sort();
    expect([first, ...others]).toEqual([
      'AddressRejected about Service web (uid): spec.externalIPs[0]: is not an IP address: "x"',
      'FieldRejected about Service web (uid): spec.sessionAffinity: must be None or ClientIP',
      // Who has what in another namespace is not for tenants to know.
      'FrontendConflict about Service other (uid-4): tenant/other:http does not get ' +
        'TCP 10.96.0.1:80, which a Service of another namespace holds',
      'FrontendConflict about Service thief (uid-2): ' +
        'ns/thief:http does not get TCP 10.96.0.1:80, which ns/web holds',
      expect.stringMatching(
        /^SetAside about Service odd \(uid-3\): node node-a: the kernel refuses ns\/odd:http /,
      ),
      'Starting about Node node-a (node-a): ',
    ]);
  });

  it('which Service load balancers cannot ask about', async () => {
    const { told, openEvents } = listening();
    const taken = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => taken.once('listening', resolve));
    onTestFinished(() => void taken.close());
    const { port } = taken.address() as AddressInfo;
    const app = new Running(await configOf('--manifests=/x', '--nodeport-addresses=127.0.0.0/8'));
    await app.start({ openEvents });
    onTestFinished(() => app.stop());
    const fields = { type: 'LoadBalancer', externalTrafficPolicy: 'Local' } as const;
    const balanced = service({ ...fields, healthCheckNodePort: port });
    app.source.say({ kind: 'service', service: balanced });
    app.source.listed(...resources);
    await app.clock.pass(30_500);
    expect(told).toContainEqual(
      expect.stringMatching(
        new RegExp(
          '^FailedToStartServiceHealthcheck about Service web \\(uid\\): node node-a: failed to ' +
            `start healthcheck "ns/web" on port ${port}: listen EADDRINUSE`,
        ),
      ),
    );
    expect(app.lines).toContainEqual(
      expect.objectContaining({ level: 'warn', service: 'ns/web', port, retryMs: 1000 }),
    );
  });

  it('why the proxy ends if it cannot serve and is configured to fail', async () => {
    const { told, openEvents } = listening();
    const taken = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => taken.once('listening', resolve));
    onTestFinished(() => void taken.close());
    const { port } = taken.address() as AddressInfo;
    const flags = ['--manifests=/anywhere', '--bind-address-hard-fail', `--metrics-port=${port}`];
    const app = await new Running(await configOf(...flags)).start({ openEvents });
    for (let i = 0; i < 20 && app.outcome === undefined; i += 1) await quiet();
    expect(told).toContainEqual(
      expect.stringMatching(/^FailedToStartMetricServer about Node .*EADDRINUSE/),
    );
  });
});

describe('fairlead run --init-only', () => {
  const timeout = '/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait';
  const localnet = '/proc/sys/net/ipv4/conf/all/route_localnet';
  const oom = '/proc/self/oom_score_adj';

  it('sets sysctls, waits for the Node, writes no rules, and ends', async () => {
    const root = machineRoot({ [timeout]: '60', [localnet]: '0', [oom]: '0' });
    const flags = ['--conntrack-max-per-core=0', '--conntrack-tcp-timeout-established=0'];
    const app = new Running(await configOf('--master=http://127.0.0.1:1', ...flags));
    await app.start({ host: hostFiles(root) }, 'initialise');
    expect(contentOf(root, timeout)).toBe('3600');
    app.source.say(...web);
    app.source.listed(...resources);
    await app.clock.pass(5000);
    expect(app.outcome).toBeUndefined();
    app.source.say({ kind: 'node', node: node() });
    await quiet();
    expect(app.outcome).toBe('stopped');
    expect(app.kernel.table(NFPROTO.IPv4, 'fairlead')).toBeUndefined();
    expect(contentOf(root, oom)).toBe('0');
    expect(app.kernel.closed).toBe(true);
  });

  it('fails if the proxy would fail', async () => {
    const app = await new Running(await configOf('--manifests=/anywhere')).start(
      { families: () => ['IPv4'] },
      'initialise',
    );
    app.source.say({ kind: 'node', node: node({ addresses: [address('fd00::1')] }) });
    app.source.listed(...resources);
    await quiet();
    expect(String(app.outcome)).toContain('no support for primary IP family "IPv6"');
  });
});

describe('the log verbosity', () => {
  it('can be changed while running if profiling is enabled', async () => {
    const app = await started('--manifests=/anywhere', '--profiling');
    const { port } = app.config.metricsBindAddress!;
    const put = async (body: string, method = 'PUT') => {
      const url = `http://127.0.0.1:${port}/debug/flags/v`;
      const { status } = await fetch(url, { method, body: method === 'GET' ? null : body });
      return status;
    };
    app.source.listed(...resources);
    await quiet();
    expect(app.logged).not.toContain('Sync queued');
    expect(await put('4')).toBe(200);
    app.source.say(...web);
    await quiet();
    expect(app.logged).toContain('Sync queued');
    expect(await put('much')).toBe(400);
    expect(await put('9'.repeat(2000))).toBe(400);
    expect(await put('', 'GET')).toBe(406);
    await app.stop();
  });

  it('cannot be changed if profiling is disabled', async () => {
    const app = await started('--manifests=/anywhere');
    expect((await app.get('metrics', '/debug/flags/v')).status).toBe(404);
    await app.stop();
  });
});

/** Lists all as soon as it is asked, before the kernel has been read. */
class ReadySource extends SpokenSource {
  override run(...given: Parameters<SpokenSource['run']>): Promise<void> {
    const ended = super.run(...given);
    this.say(...web);
    this.listed(...resources);
    return ended;
  }
}

/** All others are done before the batch that has this number, from 1. */
class KernelOfSlowBatch extends ClosableKernel {
  readonly #slow: number;
  #count = 0;

  constructor(slow: number) {
    super();
    this.#slow = slow;
  }

  override async apply(ops: Uint8Array): Promise<ApplyResult> {
    this.#count += 1;
    if (this.#count === this.#slow) await quiet();
    return super.apply(ops);
  }
}

it.each([1, 2, 3, 4, 5, 6])(
  'a start ends with one line, once all families are in force, whatever batch takes long: %i',
  async (slow) => {
    const app = new Running(await configOf('--manifests=/anywhere'));
    const [kernel, source] = [new KernelOfSlowBatch(slow), new ReadySource()];
    await app.start({ kernel, source, modes: modes({ nftables: true }) });
    await app.clock.pass(1000);
    const other = service({ name: 'other', uid: 'uid-2', clusterIPs: ['10.96.0.7'] });
    source.say({ kind: 'service', service: other });
    await app.clock.pass(1000);
    const ready = app.lines.flatMap(({ time: _, ...line }) => (line.msg === 'Ready' ? [line] : []));
    const about = { services: 1, servicePorts: 1, families: ['IPv4', 'IPv6'] };
    expect(ready).toEqual([{ level: 'info', ...about, seconds: expect.any(Number), msg: 'Ready' }]);
    await app.stop();
  },
);

/** Connect-time translation as the configuration asks for it and the kernel can do it. */
import { describe, expect, it } from 'vitest';
import type { AppOptions } from '../../../src/agent/agent.ts';
import type { Diff } from '../../../src/ask/difference.ts';
import type { Status } from '../../../src/ask/status.ts';
import type { ConnectTimePaths } from '../../../src/connect-time/maps/choice.ts';
import { kernelOps } from '../../../src/kernel/ops.ts';
import { readRecords } from '../../../src/kernel/records.ts';
import type { Change } from '../../../src/state/change.ts';
import { kernelRefusal } from '../../fake/conntrack.ts';
import { configOf, Running, serveWeb } from '../agent/running.ts';
import { node, ready, service, slice } from '../state/build.ts';
import { quiet } from '../sync/double.ts';

const manifests = '--manifests=/anywhere';
const clusterCIDR = '--cluster-cidr=10.244.0.0/16,fd00:244::/64';
const connectTime = { directory: '/nowhere/bpf/fairlead', cgroup: '/nowhere/cgroup' };

async function running(
  reach: 'off' | 'host' | 'all',
  overrides: Partial<AppOptions> = { connectTime },
  lack?: string,
): Promise<Running> {
  const app = new Running(await configOf(manifests, clusterCIDR, `--connect-time=${reach}`));
  app.kernel.bpf.lack = lack;
  await app.start(overrides);
  await serveWeb(app);
  return app;
}

const everySocket = { cgroup: '/nowhere/cgroup', all: 1, counts: 0, excludes: 0 };
const ownSockets = { cgroup: '/nowhere/cgroup', all: 0, counts: 0, excludes: 0 };

function links({ kernel }: Running): unknown[] {
  return [...kernel.bpf.links.values()];
}

it('connect-time translation is off by default, and then no map exists', async () => {
  const app = await running('off');
  expect(app.kernel.bpf.text()).toBe('');
});

it.each([
  ['host', ownSockets],
  ['all', everySocket],
] as const)(
  'connect-time translation is active for %s once rules are in force',
  async (reach, link) => {
    const app = await running(reach);
    expect(links(app)).toEqual([link, link]);
    expect(app.kernel.bpf.text()).toMatch(/ffff0a600001/);
    expect(app.kernel.ruleset()).toContain('10.96.0.1 .');
  },
);

it('connect-time translation is active although the kernel was short of memory when asked', async () => {
  const app = new Running(await configOf(manifests, '--connect-time=host'));
  const dump = app.kernel.dump.bind(app.kernel);
  app.kernel.dump = async (request, take) => {
    if (request.kind === 'bpfProbe') throw kernelRefusal('ENOMEM');
    return dump(request, take);
  };
  await app.start({ connectTime });
  await serveWeb(app);
  expect(links(app)).toEqual([ownSockets, ownSockets]);
});

it('connect-time translation follows changes of the configuration while running', async () => {
  const app = await running('all');
  await app.app.reconfigure(await configOf(manifests, '--connect-time=host'));
  await quiet();
  await app.clock.pass(5000);
  expect(links(app)).toEqual([ownSockets, ownSockets]);
});

it('connect-time translation stays as it is if a changed configuration cannot be applied', async () => {
  const write = (path: string): void => {
    throw new Error(`EINVAL: ${path}`);
  };
  const quietly = ['max-per-core', 'tcp-timeout-established', 'tcp-timeout-close-wait'];
  const limits = quietly.map((name) => `--conntrack-${name}=0`);
  const flags = [manifests, '--detect-local-mode=NodeCIDR', ...limits];
  const app = new Running(await configOf(...flags));
  await app.start({ connectTime, host: { read: () => '1', list: () => [], write } });
  app.source.say({ kind: 'node', node: node({ podCIDRs: ['10.244.0.0/24', 'fd00:244::/64'] }) });
  await serveWeb(app);
  const next = [...flags, '--connect-time=all', '--conntrack-udp-timeout=7s'];
  await expect(app.app.reconfigure(await configOf(...next))).rejects.toThrow('EINVAL');
  // What runs is replaced with the settings in force.
  app.source.say({ kind: 'node', node: node({ podCIDRs: ['10.244.1.0/24', 'fd00:244:1::/64'] }) });
  await quiet();
  expect(app.logged).toContain('PodCIDRs changed for the node; updating rules');
  await app.clock.pass(5000);
  expect(links(app)).toEqual([]);
  const text = await (await app.get('metrics', '/metrics')).text();
  expect(text).toContain('fairlead_connect_time_state{state="off"} 1');
});

it('connect-time translation follows changes of Services', async () => {
  const app = await running('all');
  app.source.say({ kind: 'service-gone', key: 'ns/web' });
  await quiet();
  expect(app.kernel.bpf.text()).not.toMatch(/ffff0a600001/);
});

it('connect-time translation is off, with a report, if the kernel lacks a feature', async () => {
  const app = await running('all', { connectTime }, 'loading program connect4: Invalid argument');
  expect(app.kernel.bpf.text()).toBe('');
  expect(app.kernel.ruleset()).toContain('10.96.0.1 .');
  expect(app.logged).toContain('Connect-time translation is unavailable; using packet rules only');
});

it('connect-time translation is off, with a report, if cgroup2 is not mounted', async () => {
  const app = await running('all', {
    connectTime: { directory: connectTime.directory, cgroup: undefined },
  });
  expect(app.kernel.bpf.text()).toBe('');
  const line = app.lines.find(
    ({ msg }) => msg === 'Connect-time translation is unavailable; using packet rules only',
  );
  expect(line?.err).toContain('cgroup2');
  const text = await (await app.get('metrics', '/metrics')).text();
  expect(text).toContain('fairlead_connect_time_state{state="unavailable"} 1');
});

const small = { ...connectTime, room: { frontends: 100, endpoints: 24 } };
/** Of 10.96.0.1, as the map has it. */
const clusterIP = /ffff0a600001/;

/** The Service ns/web with this number of endpoints. */
function grown(count: number): Change {
  const endpoints = Array.from({ length: count }, (_, i) => [`10.244.0.${i + 2}`, ready]);
  return { kind: 'slice', slice: slice(Object.fromEntries(endpoints)) };
}

const other: readonly Change[] = [
  {
    kind: 'service',
    service: service({ namespace: 'other', clusterIPs: ['10.96.0.2'] }),
  },
  {
    kind: 'slice',
    slice: slice({ '10.244.1.1': ready }, { key: 'other/web-1', service: 'other/web' }),
  },
];

it('a Service that does not fit into the maps is handled completely by rules', async () => {
  const app = await running('all', { connectTime: small });
  app.source.say(grown(25), ...other);
  await quiet();
  expect(app.app.upToDate).toBe(true);
  expect(app.kernel.bpf.text()).not.toMatch(clusterIP);
  expect(app.kernel.bpf.text()).toMatch(/ffff0a600002/);
  expect(app.services.join()).toContain('10.96.0.1');
  const told = app.lines.filter(({ msg }) => String(msg).includes('packet rules only'));
  expect(told).toMatchObject([{ service: 'ns/web', family: 'IPv4', frontends: 1, endpoints: 28 }]);
  app.source.say(grown(2));
  await quiet();
  expect(app.kernel.bpf.text()).toMatch(clusterIP);
  expect(app.logged).toContain('Service is in the connect-time map again');
});

it('the status reports how full the maps are, which Services only rules handle, and why', async () => {
  const app = await running('all', { connectTime: small });
  const sticky = { name: 'sticky', affinityTimeoutSeconds: 60, clusterIPs: ['10.96.0.3'] };
  app.source.say(grown(25), ...other, { kind: 'service', service: service(sticky) });
  await quiet();
  const text = await (await app.get('metrics', '/metrics')).text();
  const lines = text.split('\n').filter((line) => line.startsWith('fairlead_connect_time'));
  expect(lines.filter((line) => !line.includes('IPv6'))).toEqual([
    'fairlead_connect_time_state{state="off"} 0',
    'fairlead_connect_time_state{state="host"} 0',
    'fairlead_connect_time_state{state="all"} 1',
    'fairlead_connect_time_state{state="unavailable"} 0',
    'fairlead_connect_time_state{state="stale"} 0',
    'fairlead_connect_time_state{state="unknown"} 0',
    'fairlead_connect_time_elements{ip_family="IPv4",map="frontends"} 1',
    'fairlead_connect_time_elements{ip_family="IPv4",map="endpoints"} 4',
    'fairlead_connect_time_elements_max{ip_family="IPv4",map="frontends"} 100',
    'fairlead_connect_time_elements_max{ip_family="IPv4",map="endpoints"} 24',
    'fairlead_connect_time_left_to_rules{ip_family="IPv4",reason="no room"} 1',
    'fairlead_connect_time_left_to_rules{ip_family="IPv4",reason="session affinity"} 1',
  ]);
});

it('no Service is set aside if the kernel has no memory for maps', async () => {
  const app = await running('all');
  app.kernel.bpf.elementsMax = 3;
  app.source.say(grown(6), ...other);
  await quiet();
  await app.clock.pass(1000);
  expect(app.app.upToDate).toBe(true);
  expect(app.services.join()).toMatch(/10\.96\.0\.1.*10\.96\.0\.2/);
  expect(app.logged.join()).not.toContain('Kernel rejected Service port; continuing');
  const failures = app.logged.filter((msg) => msg.startsWith('Sync failed')).length;
  await app.clock.pass(60_000);
  expect(app.logged.filter((msg) => msg.startsWith('Sync failed'))).toHaveLength(failures);
});

describe('connect-time programs of an earlier process', () => {
  const lookAgainMs = 60_000;
  const state = async (app: Running): Promise<string | undefined> => {
    const text = await (await app.get('metrics', '/metrics')).text();
    return /fairlead_connect_time_state\{state="(\w+)"\} 1/.exec(text)?.[1];
  };
  const status = async (app: Running): Promise<Status> =>
    (await (await app.get('metrics', '/fairlead/v1/status')).json()) as Status;
  const diff = async (app: Running): Promise<Diff> =>
    (await (await app.get('metrics', '/fairlead/v1/diff')).json()) as Diff;

  async function among(
    reach: 'off' | 'all',
    set: (app: Running) => void,
    paths: ConnectTimePaths = connectTime,
  ): Promise<Running> {
    const app = new Running(await configOf(manifests, clusterCIDR, `--connect-time=${reach}`));
    app.kernel.bpf.strays.set(7, 'connect4').set(8, 'sendmsg4');
    set(app);
    await app.start({ connectTime: paths });
    await serveWeb(app);
    return app;
  }

  it.each(['off', 'all'] as const)('are detached by a start with %s', async (reach) => {
    const app = await among(reach, () => {});
    expect(app.kernel.bpf.strays.size).toBe(0);
    expect(app.lines).toContainEqual(
      expect.objectContaining({
        level: 'info',
        msg: 'Detached connect-time programs that no process updates',
        programs: 'connect4 sendmsg4',
      }),
    );
    expect(await state(app)).toBe(reach);
    expect(await status(app)).toMatchObject({
      healthy: true,
      connectTime: { stale: { attached: 0 } },
    });
    expect(await diff(app)).toMatchObject({ healthy: true, stale: [] });
  });

  it('are reported in all answers while they cannot be detached, and the detachment is retried', async () => {
    const app = await among('off', ({ kernel }) => {
      kernel.bpf.forbidden.detach = 'EINVAL';
    });
    const reports = () =>
      app.logged.filter((msg) => msg.endsWith('that no process updates are attached')).length;
    expect(reports()).toBe(1);
    expect(await state(app)).toBe('stale');
    expect(await status(app)).toMatchObject({
      healthy: false,
      problems: [expect.stringContaining('Connect-time 2 programs')],
    });
    expect(await diff(app)).toMatchObject({ healthy: false, stale: ['connect4', 'sendmsg4'] });
    await app.clock.pass(lookAgainMs);
    expect(reports()).toBe(1);
    delete app.kernel.bpf.forbidden.detach;
    await app.clock.pass(lookAgainMs);
    expect(await state(app)).toBe('off');
    expect(await diff(app)).toMatchObject({ healthy: true, stale: [] });
  });

  it('are reported as possibly another agent’s if their owner cannot be read', async () => {
    const app = await among('off', ({ kernel }) => {
      kernel.bpf.strays.clear();
      kernel.bpf.strays.set(0, '');
    });
    expect(await state(app)).toBe('unknown');
    const { healthy, remarks } = await status(app);
    expect({ healthy, remarks }).toEqual({
      healthy: true,
      remarks: ['Possibly connect-time programs of an earlier process: 1 attached program.'],
    });
    app.kernel.bpf.strays.clear();
    await app.clock.pass(lookAgainMs - 1);
    expect((await status(app)).remarks).toEqual(remarks);
    await app.clock.pass(1);
    expect((await status(app)).remarks).toEqual([]);
  });

  it('are not searched if that is not permitted, which is reported once', async () => {
    const forbid = ({ kernel }: Running): void => {
      kernel.bpf.forbidden.list = 'EPERM';
    };
    const app = await among('off', forbid);
    await app.clock.pass(2 * lookAgainMs);
    const message = 'Could not check for connect-time programs of an earlier process';
    expect(app.logged.filter((msg) => msg === message)).toHaveLength(1);
    expect((await status(app)).connectTime.stale.unknown).toContain('EPERM');
    // Where the folder is mounted, it has shown that there is nothing.
    const mounted = await among('off', forbid, { ...connectTime, isMounted: true });
    expect(mounted.logged).not.toContain(message);
  });
});

describe('the lease of connect-time programs', () => {
  async function leased(): Promise<Running> {
    const app = await running('all');
    app.kernel.bpf.now = () => app.clock.now();
    return app;
  }
  const ends = ({ kernel }: Running): number[] => [...kernel.bpf.leases.values()];
  const expired = 'Lease of connect-time programs expired; comparing maps to renew it';

  it('is renewed long before it ends', async () => {
    const app = await leased();
    expect(ends(app)).toEqual([300_000, 300_000]);
    for (let i = 0; i < 4; i += 1) await app.clock.pass(150_000);
    for (const end of ends(app)) expect(end).toBeGreaterThan(600_000 + 240_000);
    expect(app.logged).not.toContain(expired);
  });

  it('is renewed also where each renewal meets a comparison', async () => {
    const app = await leased();
    for (let i = 0; i < 12; i += 1) {
      const release = app.kernel.hold();
      await app.clock.pass(30_000);
      release();
      await quiet();
    }
    for (const end of ends(app)) expect(end).toBeGreaterThan(app.clock.now() + 200_000);
    expect(app.logged).not.toContain(expired);
  });

  it('is renewed only after a comparison if the process was stopped', async () => {
    const app = await leased();
    const frontends = app.kernel.bpf.maps.get('/nowhere/bpf/fairlead/frontends4')!;
    const [key] = [...frontends.keys()].filter((one) => clusterIP.test(one));
    app.kernel.bpf.now = () => app.clock.now() + 400_000;
    const held: boolean[] = [];
    const { leases } = app.kernel.bpf;
    const set = leases.set.bind(leases);
    leases.set = (at, end) => {
      held.push(frontends.has(key!));
      return set(at, end);
    };
    frontends.delete(key!);
    await app.clock.pass(60_000);
    expect(app.logged).toContain(expired);
    expect(held.length).toBeGreaterThan(0);
    expect(held).not.toContain(false);
    for (const end of ends(app)) expect(end).toBeGreaterThan(app.kernel.bpf.now() + 200_000);
  });

  /** All but leases. */
  function refuseChanges({ kernel }: Running): void {
    kernel.bpf.elementsMax = -1;
    const refused = kernel.apply.bind(kernel);
    kernel.apply = async (ops) => {
      const kinds = Array.from(readRecords(kernelOps, ops), ({ kind }) => kind);
      if (kinds[0] === 'bpfLeaseExtend') return refused(ops);
      const failure = { op: undefined, entry: undefined, code: 'EIO', message: 'broken' };
      return { kind: 'failed', failures: [failure], partly: false };
    };
  }

  it('expires, with a log line, if the kernel accepts no changes', async () => {
    const app = await leased();
    refuseChanges(app);
    app.source.say(grown(3));
    await quiet();
    for (let i = 0; i < 5; i += 1) await app.clock.pass(100_000);
    expect(app.kernel.bpf.leases.get('/nowhere/bpf/fairlead 2')).toBeLessThanOrEqual(
      app.clock.now(),
    );
    expect(app.logged).toContain('Failed to renew the lease of connect-time programs');
  });
});

it('the seed of pool ids survives a restart', async () => {
  const app = await running('all');
  const before = app.kernel.bpf.text();
  await app.stop();
  const again = new Running(await configOf(manifests, '--connect-time=all'));
  await again.start({ connectTime, kernel: app.kernel });
  await serveWeb(again);
  expect(app.kernel.bpf.text()).toBe(before);
  const other = await running('all');
  expect(other.kernel.bpf.text()).not.toBe(before);
});

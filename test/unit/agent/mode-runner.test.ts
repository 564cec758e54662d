/** One mode follows another, make before break. */
import { describe, expect, it, onTestFinished } from 'vitest';
import { hostFiles } from '../../../src/host/files.ts';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { ipvsMode } from '../../../src/modes/ipvs/mode.ts';
import type { ModeName } from '../../../src/modes/mode.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import type { ProxyMode } from '../../../src/modes/proxy-mode.ts';
import { resources } from '../../../src/state/change.ts';
import { contentOf, machineRoot } from '../host/machine.ts';
import { service as serviceOf } from '../state/build.ts';
import { quiet } from '../sync/double.ts';
import { chainMode, table as chains } from './chain-mode.ts';
import { ClosableKernel, configOf, Running, web } from './running.ts';

const fairlead = 'fairlead';

/** A kernel that remembers which of the modes' tables it held after each transaction. */
class Watched extends ClosableKernel {
  readonly history: string[] = [];

  override async apply(ops: Uint8Array): ReturnType<ClosableKernel['apply']> {
    const result = await super.apply(ops);
    const now = this.held();
    if (now !== '' && this.history.at(-1) !== now) this.history.push(now);
    return result;
  }

  held(): string {
    return [fairlead, chains]
      .filter((table) => this.table(NFPROTO.IPv4, table) !== undefined)
      .join(' and ');
  }
}

const modes = new Map<ModeName, ProxyMode>([
  ['nftables', nftablesMode],
  ['ipvs', chainMode('ipvs')],
]);

const manifests = '--manifests=/anywhere';

async function running(
  mode: ModeName,
  kernel = new Watched(),
  registry = modes,
): Promise<{ app: Running; kernel: Watched }> {
  const app = new Running(await configOf(manifests, `--proxy-mode=${mode}`));
  await app.start({ kernel, modes: registry });
  onTestFinished(() => app.stop());
  app.source.say(...web);
  app.source.listed(...resources);
  await quiet();
  return { app, kernel };
}

async function reconfigure(app: Running, mode: ModeName): Promise<void> {
  await app.app.reconfigure(await configOf(manifests, `--proxy-mode=${mode}`));
}

describe('a change of the mode in the configuration', () => {
  it('takes effect while running, and removes the old rules once the new ones are verified', async () => {
    const { app, kernel } = await running('nftables');
    expect(kernel.held()).toBe(fairlead);
    await reconfigure(app, 'ipvs');
    expect(app.app.upToDate).toBe(false);
    await app.clock.pass(1000);
    expect(app.app.upToDate).toBe(true);
    expect(kernel.history).toEqual([fairlead, `${fairlead} and ${chains}`, chains]);
    expect(await (await app.get('metrics', '/proxyMode')).text()).toBe('ipvs');
    expect(app.lines).toContainEqual(
      expect.objectContaining({
        msg: 'Took over from another mode; removed its objects',
        mode: 'nftables',
        by: 'ipvs',
        objects: 2,
      }),
    );
  });

  it('can be reverted, and Services are followed all the time', async () => {
    const { app, kernel } = await running('nftables');
    for (const mode of ['ipvs', 'nftables', 'ipvs', 'nftables'] as const) {
      await reconfigure(app, mode);
      await app.clock.pass(1000);
    }
    expect(kernel.held()).toBe(fairlead);
    app.source.say({ kind: 'service', service: serviceOf({ clusterIPs: ['10.96.0.2'] }) });
    await quiet();
    expect(kernel.elements(NFPROTO.IPv4, fairlead, 'services')).toEqual([
      '10.96.0.2 . tcp . 80 comment "ns/web:http" : goto cluster-2-e',
    ]);
    await app.stop();
    expect(app.outcome).toBe('stopped');
  });

  it('can be reverted before it was verified: the old rules still exist', async () => {
    const { app, kernel } = await running('nftables');
    await reconfigure(app, 'ipvs');
    await reconfigure(app, 'nftables');
    await app.clock.pass(1000);
    expect(kernel.held()).toBe(fairlead);
    expect(kernel.history.every((tables) => tables.startsWith(fairlead))).toBe(true);
  });

  it('keeps the old rules while the kernel refuses the new ones', async () => {
    const { app, kernel } = await running('nftables');
    kernel.failNext({ code: 'ENOMEM', times: Number.POSITIVE_INFINITY });
    await reconfigure(app, 'ipvs');
    await app.clock.pass(600_000);
    expect(kernel.held()).toBe(fairlead);
    kernel.heal();
    await app.clock.pass(600_000);
    expect(kernel.held()).toBe(chains);
  });

  it('changes nothing if the mode cannot run here, and neither do other changes in the file', async () => {
    const { app, kernel } = await running('ipvs');
    const before = kernel.ruleset();
    const wish = await configOf(manifests, '--proxy-mode=userspace', '-v=4');
    await expect(app.app.reconfigure(wish)).rejects.toThrow('no proxy mode can run: userspace');
    await app.clock.pass(1000);
    expect(kernel.ruleset()).toBe(before);
    expect(app.app.mode).toBe('ipvs');
    expect(app.logged).not.toContain('Sync queued');
  });

  it('waits until the removal of the old mode’s rules is complete', async () => {
    const kernel = new Watched();
    await (await running('ipvs', kernel)).app.stop();
    let release = (): void => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const slow: ProxyMode = {
      ...chainMode('ipvs'),
      cleanup: async (k) => held.then(() => chainMode('ipvs').cleanup(k)),
    };
    const registry = new Map(modes).set('ipvs', slow);
    const { app } = await running('nftables', kernel, registry);
    await app.clock.pass(1000);
    await reconfigure(app, 'ipvs');
    await app.clock.pass(1000);
    release();
    await app.clock.pass(1000);
    expect(kernel.held()).toBe(chains);
    expect(app.app.upToDate).toBe(true);
  });
});

describe('a change to mode ipvs', () => {
  it('sets its sysctls first, and is rejected if it cannot', async () => {
    const vs = ['conntrack', 'conn_reuse_mode', 'expire_nodest_conn', 'expire_quiescent_template'];
    const files = vs.map((name) => [`/proc/sys/net/ipv4/vs/${name}`, '0']);
    const forward = '/proc/sys/net/ipv4/ip_forward';
    const root = machineRoot(Object.fromEntries([...files, [forward, '0']]));
    const bare = machineRoot({ [`${files[0]![0]}/a-folder`]: '' });
    const timeouts = ['established', 'close-wait'];
    const untouched = timeouts.map((name) => `--conntrack-tcp-timeout-${name}=0`);
    const flags = [manifests, '--conntrack-max-per-core=0', ...untouched];
    const { sysctls } = ipvsMode;
    const registry = new Map(modes).set('ipvs', { ...chainMode('ipvs'), sysctls: sysctls! });
    for (const [at, works] of [
      [root, true],
      [bare, false],
    ] as const) {
      const app = new Running(await configOf(...flags, '--proxy-mode=nftables'));
      await app.start({ kernel: new Watched(), modes: registry, host: hostFiles(at) });
      onTestFinished(() => app.stop());
      app.source.listed(...resources);
      await quiet();
      const wish = await configOf(...flags, '--proxy-mode=ipvs');
      const outcome = await app.app.reconfigure(wish).then(
        () => true,
        (error: Error) => error.message.includes('could not set up IPVS') && false,
      );
      expect([outcome, app.app.mode]).toEqual([works, works ? 'ipvs' : 'nftables']);
    }
    expect(contentOf(root, forward)).toBe('1');
    expect(contentOf(root, '/proc/sys/net/ipv4/vs/conntrack')).toBe('1');
  });
});

describe('a change from mode ipvs to another mode', () => {
  const registry = new Map<ModeName, ProxyMode>([
    ['nftables', nftablesMode],
    ['ipvs', ipvsMode],
  ]);
  const service = 'TCP 10.96.0.1:80';

  it('keeps virtual services with connections until these end, and hides them from new ones', async () => {
    const { app, kernel } = await running('ipvs', new Watched(), registry);
    const other = { clusterIPs: ['10.96.0.2'], name: 'other' };
    app.source.say({ kind: 'service', service: serviceOf(other) });
    await app.clock.pass(1000);
    expect(kernel.ipvs.text()).toContain(service);
    expect(kernel.links.texts('kube-ipvs0')).toEqual(['10.96.0.1/32', '10.96.0.2/32']);
    kernel.ipvs.traffic(service, '10.244.0.2:8080', { activeConnections: 1 });
    await reconfigure(app, 'nftables');
    await app.clock.pass(1000);
    expect(kernel.ipvs.text()).toMatch(/^TCP 10\.96\.0\.1:80 .*\n {2}-> .*\n$/);
    expect(kernel.links.texts('kube-ipvs0')).toEqual(['10.96.0.1/32']);
    for (const set of ['vips', 'rejected', 'internal']) {
      expect(kernel.elements(NFPROTO.IPv4, 'fairlead-ipvs', set)).toEqual([]);
    }
    expect(app.logged).toContain(
      'Previous mode still has active connections; removing its objects when they end',
    );
    kernel.ipvs.traffic(service, '10.244.0.2:8080', { activeConnections: 0 });
    await app.clock.pass(60_000);
    expect(kernel.ipvs.text()).toBe('');
    expect(kernel.links.texts('kube-ipvs0')).toBeUndefined();
    expect(kernel.table(NFPROTO.IPv4, 'fairlead-ipvs')).toBeUndefined();
    expect(kernel.table(NFPROTO.IPv4, fairlead)).toBeDefined();
  });

  it('can be reverted before the connections have ended, and adopts everything again', async () => {
    const { app, kernel } = await running('ipvs', new Watched(), registry);
    await app.clock.pass(1000);
    const before = [kernel.ruleset(), kernel.ipvs.text(), kernel.links.texts('kube-ipvs0')];
    kernel.ipvs.traffic(service, '10.244.0.2:8080', { activeConnections: 1 });
    await reconfigure(app, 'nftables');
    await app.clock.pass(1000);
    await reconfigure(app, 'ipvs');
    await app.clock.pass(5000);
    expect([kernel.ruleset(), kernel.ipvs.text(), kernel.links.texts('kube-ipvs0')]).toEqual(
      before,
    );
  });
});

describe('a change of the mode by a restart', () => {
  it('removes the rules of the earlier process once the new ones are verified', async () => {
    const kernel = new Watched();
    await (await running('ipvs', kernel)).app.stop();
    const { app } = await running('nftables', kernel);
    await app.clock.pass(1000);
    expect(kernel.history).toEqual([chains, `${fairlead} and ${chains}`, fairlead]);
  });
});

/** Connect-time translation as the configuration asks for it and the kernel can do it. */
import { expect, it, onTestFinished } from 'vitest';
import type { AppOptions } from '../../../src/app.ts';
import { resources } from '../../../src/state/change.ts';
import { quiet } from '../sync/double.ts';
import { configOf, Running, web } from './running.ts';

const manifests = '--manifests=/anywhere';
const connectTime = { directory: '/nowhere/bpf/fairlead', cgroup: '/nowhere/cgroup' };

async function running(
  reach: 'off' | 'host' | 'all',
  overrides: Partial<AppOptions> = { connectTime },
  lack?: string,
): Promise<Running> {
  const app = new Running(await configOf(manifests, `--connect-time=${reach}`));
  app.kernel.bpf.lack = lack;
  await app.start(overrides);
  onTestFinished(() => app.stop());
  await quiet();
  app.source.say(...web);
  app.source.listed(...resources);
  await quiet();
  expect(app.app.upToDate).toBe(true);
  return app;
}

const everySocket = { cgroup: '/nowhere/cgroup', all: 1 };
const ownSockets = { cgroup: '/nowhere/cgroup', all: 0 };

function links({ kernel }: Running): unknown[] {
  return [...kernel.bpf.links.values()];
}

it('is off by default, and then no map is there', async () => {
  const app = await running('off');
  expect(app.kernel.bpf.text()).toBe('');
});

it.each([
  ['host', ownSockets],
  ['all', everySocket],
] as const)('is there for %s when rules are in force', async (reach, link) => {
  const app = await running(reach);
  expect(links(app)).toEqual([link, link]);
  expect(app.kernel.bpf.text()).toMatch(/ffff0a600001/);
  expect(app.kernel.ruleset()).toContain('10.96.0.1 .');
});

it('follows the configuration while it runs', async () => {
  const app = await running('all');
  await app.app.reconfigure(await configOf(manifests, '--connect-time=host'));
  await quiet();
  await app.clock.pass(5000);
  expect(links(app)).toEqual([ownSockets, ownSockets]);
});

it('follows Services', async () => {
  const app = await running('all');
  app.source.say({ kind: 'service-gone', key: 'ns/web' });
  await quiet();
  expect(app.kernel.bpf.text()).not.toMatch(/ffff0a600001/);
});

it('is left to the rules where the kernel lacks something, which is told', async () => {
  const app = await running('all', { connectTime }, 'loading program connect4: Invalid argument');
  expect(app.kernel.bpf.text()).toBe('');
  expect(app.kernel.ruleset()).toContain('10.96.0.1 .');
  expect(app.logged).toContain('Connections are translated by rules only');
});

it('is left to the rules where the hierarchy of cgroups is not mounted, which is told', async () => {
  const app = await running('all', {
    connectTime: { directory: connectTime.directory, cgroup: undefined },
  });
  expect(app.kernel.bpf.text()).toBe('');
  const line = app.lines.find(({ msg }) => msg === 'Connections are translated by rules only');
  expect(line?.err).toContain('cgroup2');
});

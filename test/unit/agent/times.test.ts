/** When the running proxy does what, by settings that the modes do not know: the kernel's clock. */
import { expect, it } from 'vitest';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { nftOps } from '../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../src/kernel/records.ts';
import type { Change } from '../../../src/state/change.ts';
import { service } from '../state/build.ts';
import { configOf, Running, serveWeb } from './running.ts';

async function serving(...flags: string[]) {
  const app = new Running(await configOf('--manifests=/anywhere', ...flags));
  const { clock, kernel } = app;
  // Others may change the tables, and the kernel does not say so.
  kernel.hasOwnership = false;
  kernel.watch = () => () => {};
  const commits = { tookMs: 0, refusedMs: new Set<number>() };
  const apply = kernel.apply.bind(kernel);
  kernel.apply = async (ops) => {
    const { refusedMs, tookMs } = commits;
    if (tookMs > 0) await new Promise<void>((resolve) => void clock.after(tookMs, resolve));
    const result = await apply(ops);
    if (result.kind === 'failed') refusedMs.add(clock.now());
    return result;
  };
  await app.start({ connectTime: { directory: '/nowhere/bpf', cgroup: '/nowhere' } });
  await serveWeb(app);
  return { app, commits, kernel };
}

function other(number: number): Change {
  const fields = { name: `other-${number}`, clusterIPs: [`10.96.0.${number}`] };
  return { kind: 'service', service: service(fields) };
}

it.each([
  ['nftables', 200],
  ['iptables', 700],
])('mode %s: a change begins %i ms after one that took long', async (mode, restMs) => {
  const { app, commits, kernel } = await serving(`--proxy-mode=${mode}`);
  commits.tookMs = 10_000;
  app.source.say(other(2));
  await app.clock.pass(10_000);
  expect(kernel.ruleset()).toContain('10.96.0.2');
  commits.tookMs = 0;
  app.source.say(other(3));
  await app.clock.pass(restMs - 1);
  expect(kernel.ruleset()).not.toContain('10.96.0.3');
  await app.clock.pass(1);
  expect(kernel.ruleset()).toContain('10.96.0.3');
});

const second = ['--iptables-sync-period=500ms', '--iptables-min-sync-period=0s'];

it.each([
  ['one Service', 'EINVAL', [], [0, 1000, 3000, 7000, 15_000, 31_000, 61_000, 91_000]],
  ['one Service', 'EINVAL', second, [0, 1000, 2000, 3000]],
  ['everything', 'ENOMEM', [], [0, 250, 750, 1750, 3750, 5750]],
  ['everything', 'ENOMEM', second, [0, 250, 750, 1750, 2750, 3750]],
])('what the kernel refuses is tried again: %s (%s) with %j', async (what, code, flags, at) => {
  const { app, commits, kernel } = await serving(...flags);
  const which = what === 'everything' ? {} : { forKey: '10.96.0.2 . tcp . 80' };
  kernel.failNext({ code, ...which, times: Number.POSITIVE_INFINITY });
  app.source.say(...(what === 'everything' ? [2, 3, 4, 5, 6, 7, 8, 9] : [2]).map(other));
  await app.clock.pass(at.at(-1)!);
  expect([...commits.refusedMs]).toEqual(at);
});

it.each([
  ['rules', '10m', 60_000],
  ['maps', '10m', 5000],
])(
  '%s that another program changed in silence, sync period %s: repaired after %i ms',
  async (what, period, atMs) => {
    const { app, kernel } = await serving(`--iptables-sync-period=${period}`, '--connect-time=all');
    const frontends = kernel.bpf.maps.get('/nowhere/bpf/frontends4')!;
    const held = (): unknown[] => [kernel.ruleset(), [...frontends.keys()].sort()];
    const before = held();
    if (what === 'maps') frontends.delete([...frontends.keys()][0]!);
    else {
      const writer = new RecordWriter(nftOps);
      writer.write('tableDelete', { family: NFPROTO.IPv4, table: 'fairlead' });
      kernel.foreign(writer.finish());
    }
    await app.clock.pass(atMs - 1);
    expect(held()).not.toEqual(before);
    await app.clock.pass(1);
    expect(held()).toEqual(before);
  },
);

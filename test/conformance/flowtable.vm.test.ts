/** Flowtables: written through the Kernel, read back by it and by nft(8). */
import { expect, test } from 'vitest';
import { FastPath } from '../../src/fast-path/fast-path.ts';
import { deviceSet, flowtable, inTable, tableName } from '../../src/fast-path/layout.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { NF_INET } from '../../src/kernel/nft/constants.ts';
import { compileRule, flowAdd } from '../../src/kernel/nft/rule.ts';
import { systemClock } from '../../src/time/clock.ts';
import { until } from '../process/program.ts';
import { createKernel, createNamespace, type Namespace } from './namespace.ts';
import { applied, batch, dumped } from './ops.ts';

const inet = { family: 1, table: 't' } as const;
const named = { ...inet, flowtable: 'f', priority: 0 } as const;
const comment = '';

async function devices(kernel: Kernel): Promise<string[]> {
  const [found] = await dumped(kernel, 'flowtable', { kind: 'flowtablesDump', ...inet });
  return found === undefined ? [] : found.devices.split(' ').sort();
}

async function addLinks({ run }: Namespace, ...names: readonly string[]): Promise<void> {
  for (const name of names) await run('ip', ['link', 'add', name, 'type', 'dummy']);
}

test('a flowtable and its devices, as nft lists them', async () => {
  const { kernel, namespace } = await createKernel();
  await addLinks(namespace, 'd1', 'd2', 'd3');
  await applied(
    kernel,
    { kind: 'tableAdd', ...inet, comment },
    { kind: 'flowtableAdd', ...named, flags: 2, devices: '' },
    { kind: 'flowtableAdd', ...named, flags: 2, devices: 'd1 d2' },
    { kind: 'flowtableAdd', ...named, flags: 2, devices: 'd3' },
  );
  expect(await devices(kernel)).toEqual(['d1', 'd2', 'd3']);
  const listing = await namespace.run('nft', ['list', 'flowtables']);
  expect(listing).toMatch(/flowtable f \{\s+hook ingress priority (filter|0)/);
  expect(listing).toContain('counter');

  await applied(kernel, { kind: 'flowtableDevicesDelete', ...named, devices: 'd2' });
  expect(await devices(kernel)).toEqual(['d1', 'd3']);
  await applied(kernel, { kind: 'objectDelete', ...inet, type: 0, object: 'f' });
  expect(await devices(kernel)).toEqual([]);
});

test('devices that are not there, or are there already, are refused by their op', async () => {
  const { kernel, namespace } = await createKernel();
  await addLinks(namespace, 'd1');
  await applied(
    kernel,
    { kind: 'tableAdd', ...inet, comment },
    { kind: 'flowtableAdd', ...named, flags: 0, devices: 'd1' },
  );
  const twice = { kind: 'flowtableAdd', ...named, flowtable: 'g', flags: 0 } as const;
  const result = await kernel.apply(batch({ ...twice, devices: '' }, { ...twice, devices: 'd1' }));
  expect(result).toMatchObject({ kind: 'failed', failures: [{ op: 1, code: 'EEXIST' }] });
  expect(await devices(kernel)).toEqual(['d1']);
});

test('`flow add` is what nft makes of it', async () => {
  const { kernel, namespace } = await createKernel();
  const chain = { ...inet, chain: 'c' } as const;
  const hook = { type: 'filter', hook: NF_INET.FORWARD, priority: 0, policy: 1 } as const;
  await applied(
    kernel,
    { kind: 'tableAdd', ...inet, comment },
    { kind: 'flowtableAdd', ...named, flags: 0, devices: '' },
    { kind: 'baseChainAdd', ...chain, ...hook, comment },
    { kind: 'ruleAdd', ...chain, expressions: compileRule([flowAdd('f')]), comment },
  );
  await namespace.run('nft', ['add', 'rule', 'inet', 't', 'c', 'flow', 'add', '@f']);
  const rules = await dumped(kernel, 'rule', { kind: 'rulesDump', ...chain });
  expect(rules).toHaveLength(2);
  expect(rules[0]!.expressions).toEqual(rules[1]!.expressions);
});

type Lines = string[];

/** A fast path in the namespace, with `d1` as the device of the default route. */
function fastPath(kernel: Kernel, lines: Lines): FastPath {
  const told = (_: object, message: string): void => void lines.push(message);
  const routes = 'Iface\nd1\t00000000\t00000000\t3\t0\t0\t0\t00000000';
  return new FastPath({
    kernel,
    clock: systemClock,
    log: { info: told, warn: told, error: told },
    state: { synced: true, service: () => undefined, serviceKeys: function* () {} },
    agent: { families: [] },
    host: { read: (path) => (path === '/proc/net/route' ? routes : undefined) },
  });
}

async function devicesInUse(kernel: Kernel): Promise<string[]> {
  const [found] = await dumped(kernel, 'flowtable', { kind: 'flowtablesDump', ...inTable });
  return found === undefined ? [] : found.devices.split(' ').sort();
}

const wish = { fastPath: 'flowtable', fastPathPackets: 20 } as const;

test('the fast path follows devices, repairs its table, and goes without a trace', async () => {
  const lines: Lines = [];
  const { kernel, namespace } = await createKernel();
  const { run } = namespace;
  await addLinks(namespace, 'd1');
  await run('ip', ['link', 'set', 'd1', 'up']);
  const first = fastPath(kernel, lines);
  first.choose(wish, 'nftables');
  await until(async () => (await devicesInUse(kernel)).includes('d1'), 'the device is in');
  const listing = await run('nft', ['list', 'table', 'inet', inTable.table]);
  expect(listing).toContain('ct status dnat ct packets > 20 rt ipsec missing goto move');
  expect(listing).toContain('ct original ip daddr . meta l4proto . ct original proto-dst');
  expect(listing).toContain(`flow add @${flowtable.flowtable}`);
  expect(listing).toContain('elements = { "d1" }');

  const pod = await createNamespace();
  const peer = ['peer', 'name', 'eth0', 'netns', pod.name];
  await run('ip', ['link', 'add', 'pod1', 'type', 'veth', ...peer]);
  await run('ip', ['link', 'set', 'pod1', 'up']);
  await until(async () => (await devicesInUse(kernel)).includes('pod1'), 'the pod is in');
  await run('ip', ['link', 'del', 'pod1']);
  await until(async () => !(await devicesInUse(kernel)).includes('pod1'), 'the pod is out');
  // The kernel takes the device out of the flowtable itself, and knows nothing of the set.
  const listed = () => run('nft', ['list', 'set', 'inet', inTable.table, deviceSet.name]);
  await until(async () => !(await listed()).includes('pod1'), 'its name is out');
  await first.close();

  const before = await kernel.generation();
  const second = fastPath(kernel, lines);
  second.choose(wish, 'nftables');
  await until(async () => second.state.kind === 'flowtable', 'another one adopts it');
  expect(await kernel.generation()).toBe(before);

  await run('nft', ['flush', 'chain', 'inet', inTable.table, 'forward']);
  await until(async () => lines.some((line) => line.startsWith('Repaired')), 'it is repaired');
  expect(await run('nft', ['list', 'table', 'inet', inTable.table])).toContain('goto move');

  second.choose({ ...wish, fastPath: 'off' }, 'nftables');
  await until(async () => second.state.kind === 'off', 'it is off');
  expect(await run('nft', ['list', 'tables'])).not.toContain(tableName);
  await second.close();
});

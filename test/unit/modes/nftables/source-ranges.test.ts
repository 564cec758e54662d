/** Lists of source ranges as sets and chains that come and go (named objects). */

import { describe, expect, it } from 'vitest';
import { NFPROTO } from '../../../../src/kernel/nft/constants.ts';
import { ElementShape } from '../../../../src/kernel/ops.ts';
import { tableLayout } from '../../../../src/modes/nftables/layout.ts';
import { nftablesMode } from '../../../../src/modes/nftables/mode.ts';
import { allPaths } from '../../../../src/state/paths.ts';
import type { Forwarding } from '../../../../src/state/types.ts';
import { noPause } from '../../../../src/time/pacer.ts';
import { batch } from '../../../conformance/ops.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { scriptOf as printed } from '../../../print/script.ts';
import { cidr } from '../../state/build.ts';
import { all, config, environment, few, forwarding, guarded, many, pool } from './forwardings.ts';
import { freshRuleset, noDrift, Rig } from './rig.ts';

const layoutNames = Object.keys(tableLayout('IPv4').sets);

async function started(...forwardings: readonly Forwarding[]): Promise<Rig> {
  const rig = new Rig(config, environment);
  await rig.start(all(...forwardings));
  return rig;
}

const table = (kernel: FakeKernel) => kernel.table(NFPROTO.IPv4, 'fairlead')!;
const ours = (names: Iterable<string>) =>
  [...names].filter((name) => /^(source-ranges|firewall)-.*[0-9a-f]{32}$/.test(name));
const lists = (kernel: FakeKernel): string[] => ours(table(kernel).sets.keys());
const judges = (kernel: FakeKernel): string[] => ours(table(kernel).chains.keys());
const elements = (kernel: FakeKernel, set: string): string[] =>
  kernel.elements(NFPROTO.IPv4, 'fairlead', set);

/** Another program adds a range of one address. */
function meddle(kernel: FakeKernel, last: number): void {
  const at = { family: NFPROTO.IPv4, table: 'fairlead', set: lists(kernel)[0]! };
  const form = { shape: ElementShape.flags, keyLength: 4, dataLength: 0, count: 2 };
  const entries = Uint8Array.of(192, 0, 2, last, 0, 0, 0, 0, 192, 0, 2, last + 1, 1, 0, 0, 0);
  kernel.foreign(batch({ kind: 'elementsAdd', ...at, ...form, entries }));
}

/** The transaction that brings a Service into an empty table, as nft reads it. */
async function scriptOf(wanted: Forwarding): Promise<string> {
  const planner = nftablesMode.planner(config, environment);
  const found = await planner.observe(new FakeKernel(), noPause);
  await found.restore([], noPause);
  planner.take()?.committed({ kind: 'applied' });
  planner.change(undefined, wanted);
  return printed('nftables', planner.take()!.ops);
}

describe('source ranges of node ports in mode nftables', () => {
  it('are judged by a jump before affinity and endpoints, and kept by a restart', async () => {
    const nodePort = { kind: 'nodePort', address: undefined, port: 30080 } as const;
    const frontends = [{ ...nodePort, paths: allPaths.outside }];
    const sourceRanges = [cidr('192.0.2.0/24')];
    const judged = forwarding('a', pool(1), { frontends, sourceRanges, guardsAll: true });
    const rig = await started(judged);
    const [judge] = judges(rig.kernel);
    expect(elements(rig.kernel, 'firewall-nodeports')).toEqual([`tcp . 30080 : jump ${judge}`]);
    const { writes } = rig.kernel;
    expect(await rig.crash(rig.planned, environment)).toEqual(noDrift);
    expect(rig.kernel.writes).toBe(writes);
    rig.plan(all({ ...judged, guardsAll: undefined }));
    rig.take();
    rig.drain();
    expect(elements(rig.kernel, 'firewall-nodeports')).toEqual([]);
    expect(judges(rig.kernel)).toEqual([]);
  });
});

describe('short lists of source ranges in mode nftables', () => {
  it('are rules of a chain that all frontends with the same clients share, not a set', async () => {
    const rig = await started(
      few('a', 1, '192.0.2.0/25', '192.0.2.128/25', '10.0.0.0/8'),
      few('b', 2, '10.0.0.0/8', '192.0.2.0/24', '192.0.2.77/32'),
      few('c', 3, '10.0.0.0/8'),
    );
    expect(lists(rig.kernel)).toHaveLength(0);
    expect(judges(rig.kernel)).toHaveLength(2);
    const { writes } = rig.kernel;
    expect(await rig.crash(rig.planned, environment)).toEqual(noDrift);
    expect(rig.kernel.writes).toBe(writes);
    const before = rig.kernel.ruleset();
    const [chain] = judges(rig.kernel);
    const at = { family: NFPROTO.IPv4, table: 'fairlead', chain: chain! };
    rig.kernel.foreign(batch({ kind: 'chainFlush', ...at }));
    expect(await rig.audit()).toEqual({ missing: 0, wrong: 1, unwanted: 0 });
    expect(rig.kernel.ruleset()).toBe(before);
  });

  it('permit each block that they have in common', async () => {
    const script = await scriptOf(
      few('a', 1, '192.0.2.1/32', '192.0.2.2/31', '192.0.2.4/30', '128.0.0.0/2', '192.0.0.0/25'),
    );
    const rules = [...script.matchAll(/^add rule ip fairlead firewall-\w+ (.*)$/gm)];
    expect(rules.map(([, words]) => words)).toEqual([
      'ip saddr 128.0.0.0/2 return',
      'ip saddr 192.0.0.0/25 return',
      'ip saddr 192.0.2.1 return',
      'ip saddr 192.0.2.2/31 return',
      'ip saddr 192.0.2.4/30 return',
      'drop',
    ]);
  });

  it('become a set with the ninth block', async () => {
    const rig = await started(few('a', 1, ...many.slice(1)));
    expect(lists(rig.kernel)).toHaveLength(0);
    rig.plan(all(few('a', 1, ...many)));
    rig.take();
    expect(lists(rig.kernel)).toHaveLength(1);
    rig.plan(all(few('a', 1, ...many.slice(1))));
    rig.take();
    rig.drain();
    expect(rig.kernel.ruleset()).toBe(await freshRuleset(config, environment, rig.planned));
  });
});

describe('sets of source ranges in mode nftables', () => {
  it('are shared by all frontends with the same clients, in any notation', async () => {
    const { kernel } = await started(
      guarded('a', 1, '192.0.2.0/25', '192.0.2.128/25', '10.0.0.0/8'),
      guarded('b', 2, '10.0.0.0/8', '192.0.2.0/24', '192.0.2.77/32'),
      guarded('c', 3, '10.0.0.0/8'),
    );
    expect(lists(kernel)).toHaveLength(2);
    expect(judges(kernel)).toHaveLength(2);
    expect(elements(kernel, 'firewall-ips')).toHaveLength(6);
  });

  it('are restored completely if they were retired', async () => {
    const rig = await started(guarded('a', 1, '192.0.2.0/25'));
    const before = rig.kernel.ruleset();
    rig.plan(all(guarded('a', 1, '192.0.3.0/24')));
    rig.take();
    meddle(rig.kernel, 200);
    rig.plan(all(guarded('a', 1, '192.0.2.0/25')));
    rig.take();
    rig.drain();
    expect(rig.kernel.ruleset()).toBe(before);
  });

  it('are all deleted while a tenant changes them continuously', async () => {
    const rig = await started(guarded('a', 1, '192.0.2.0/24'));
    let most = 0;
    for (let i = 0; i < 100; i += 1) {
      rig.plan(all(guarded('a', 1, `10.0.${i}.0/24`, `10.1.${i}.0/24`)));
      rig.take();
      rig.takeDeferred();
      most = Math.max(most, lists(rig.kernel).length + judges(rig.kernel).length);
    }
    expect(most).toBeLessThanOrEqual(6);
    rig.drain();
    expect(rig.kernel.ruleset()).toBe(await freshRuleset(config, environment, rig.planned));
  });

  it('follow the sets of the layout, which the kernel looks up by name', async () => {
    const rig = await started(guarded('a', 1, '192.0.2.0/24'));
    const inOrder = (): string[] => [...table(rig.kernel).sets.keys()];
    expect(inOrder().slice(0, layoutNames.length)).toEqual(layoutNames);
    expect(inOrder()).toHaveLength(layoutNames.length + 1);
    rig.kernel.foreign(batch({ kind: 'tableDelete', family: NFPROTO.IPv4, table: 'fairlead' }));
    await rig.audit();
    expect(inOrder().slice(0, layoutNames.length)).toEqual(layoutNames);
    expect(inOrder()).toHaveLength(layoutNames.length + 1);
  });

  it('are complete wherever a repair is interrupted, and usable by an earlier change', async () => {
    const services = Array.from({ length: 20 }, (_, i) => guarded(`s${i}`, i, `10.${i}.0.0/16`));
    const rig = await started(...services);
    meddle(rig.kernel, 7);
    for (const chain of judges(rig.kernel)) {
      const at = { family: NFPROTO.IPv4, table: 'fairlead', chain };
      rig.kernel.foreign(batch({ kind: 'chainFlush', ...at }));
    }
    const found = await rig.planner.observe(rig.kernel, noPause);
    const repair = await found.repair(noPause);
    // Takes the list of s0, whose repair has not come yet.
    rig.plan(all(...services, guarded('late', 99, '10.0.0.0/16')));
    rig.take();
    const { sets, chains } = table(rig.kernel);
    const judge = sets.get('firewall-ips')!.elements.values();
    const late = [...judge].find(({ key }) => key[3] === 99)!.verdict!.chain;
    expect(chains.get(late)!.rules).toHaveLength(1);
    const list = late.replace('firewall', 'source-ranges');
    expect(elements(rig.kernel, list)).toContain('10.0.0.0-10.0.255.255');
    for (const one of services) repair.compare(one);
    await repair.finish(noPause);
    rig.take();
    expect(rig.kernel.ruleset()).toBe(await freshRuleset(config, environment, rig.planned));
  });

  it('are recreated with the table if a set of this name has another form', async () => {
    const wanted = all(guarded('a', 1, '192.0.2.0/24'));
    const rig = new Rig(config, environment);
    await rig.start(wanted);
    const right = rig.kernel.ruleset();
    const [name] = lists(rig.kernel);
    const kernel = new FakeKernel();
    const other = new Rig(config, environment, kernel);
    await other.start(new Map());
    const { fields } = table(rig.kernel).sets.get(name!)!;
    kernel.foreign(batch({ kind: 'setAdd', ...fields, flags: 0 }));
    await other.recover(wanted, environment);
    expect(kernel.ruleset()).toBe(right);
  });

  it("are printed in nft's format", async () => {
    const script = await scriptOf(guarded('a', 1, '192.0.2.7/32', '10.0.0.0/8', '224.0.0.0/3'));
    const ranges = /source-ranges-\w+ \{ (.*) \}$/m.exec(script.replace(/add set .*\n/, ''))![1];
    expect(ranges!.split(' , ')).toEqual([
      '10.0.0.0-10.255.255.255',
      '192.0.2.7',
      ...many.map((range) => range.replace('/32', '')),
      '224.0.0.0-255.255.255.255',
    ]);
  });
});

import { describe, expect, it } from 'vitest';
import { KernelError } from '../../../../src/kernel/errors.ts';
import type { Kernel } from '../../../../src/kernel/kernel.ts';
import { NFPROTO, VERDICT } from '../../../../src/kernel/nft/constants.ts';
import {
  compileRule,
  dnatTo,
  jump,
  matchProtocol,
  saddr,
} from '../../../../src/kernel/nft/rule.ts';
import { fieldsOfSet } from '../../../../src/kernel/nft/sets.ts';
import { ElementShape, type NftOp } from '../../../../src/kernel/ops.ts';
import type { Applied } from '../../../../src/modes/mode.ts';
import { frontendSelectors, map } from '../../../../src/modes/nft-table/parts.ts';
import { setDefinitions } from '../../../../src/modes/nftables/layout.ts';
import { nftablesMode } from '../../../../src/modes/nftables/mode.ts';
import { allPaths } from '../../../../src/state/paths.ts';
import type { Forwarding } from '../../../../src/state/types.ts';
import { batch, bytes, verdict } from '../../../conformance/ops.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { kernelWith } from '../../../fake/kernel-with.ts';
import { all, clusterIP, config, environment, forwarding, pool } from './forwardings.ts';
import { freshRuleset, noDrift, Rig } from './rig.ts';

async function started(...forwardings: readonly Forwarding[]): Promise<Rig> {
  const rig = new Rig(config, environment);
  await rig.start(all(...forwardings));
  return rig;
}

/** The same in one batch: the rig checks what each batch keeps, so that many take long. */
async function loaded(...forwardings: readonly Forwarding[]): Promise<Rig> {
  const rig = await started();
  rig.plan(all(...forwardings));
  rig.take();
  return rig;
}

const elements = (kernel: FakeKernel, set: string): string[] =>
  kernel.elements(NFPROTO.IPv4, 'fairlead', set);
const chains = (kernel: FakeKernel) => kernel.table(NFPROTO.IPv4, 'fairlead')!.chains;

/** Its clients, by session affinity. */
const clientsOfWeb = 'affinity-ns/web/tcp/';

/** A client gets the first endpoint of `pool(1, …)`. */
function learn(kernel: FakeKernel): void {
  const learnt = {
    kind: 'elementsAdd',
    family: NFPROTO.IPv4,
    table: 'fairlead',
    set: clientsOfWeb,
    shape: ElementShape.data,
    keyLength: 4,
    dataLength: 8,
    count: 1,
    entries: bytes('0a010001', '0a000001', '1f900000'),
  } as const;
  expect(kernel.applyNow(batch(learnt))).toEqual({ kind: 'applied' });
}

describe('the cost of a change in mode nftables', () => {
  it('is two element changes and no verdict to replace an endpoint', async () => {
    const rig = await started(forwarding('web', pool(1, 2, 3)));
    const { writes } = rig.kernel;
    rig.plan(all(forwarding('web', pool(1, 9, 3))));
    rig.take();
    expect(rig.kernel.writes - writes).toBe(2);
    expect(rig.planner.takeDeferred).toBeUndefined();
  });

  it.for([
    ['added', pool(1, 2, 3), pool(1, 2, 3, 4)],
    ['removed', pool(1, 2, 3, 4, 5, 6, 7, 8), pool(1, 2, 3, 4, 5, 6, 7)],
    ['added to the only one', pool(1), pool(1, 2)],
  ] as const)('is one element if an endpoint is %s, and no verdict', async ([, before, after]) => {
    const rig = await started(forwarding('web', before));
    const { writes } = rig.kernel;
    rig.plan(all(forwarding('web', after)));
    rig.take();
    expect(rig.kernel.writes - writes).toBe(1);
    expect(rig.planner.takeDeferred).toBeUndefined();
  });

  it.for([
    ['shrinks', all(forwarding('web', pool(1)))],
    ['goes', all()],
  ] as const)('counts what is deleted of a pool that %s', async ([, after]) => {
    const hosts = Array.from({ length: 200 }, (_, i) => i + 1);
    const rig = await started(forwarding('web', pool(...hosts)));
    rig.plan(after);
    expect(rig.planner.pendingBytes).toBeGreaterThan(199 * 40);
  });

  it('agrees with the kernel when a change is planned while the kernel counts', async () => {
    const rig = await started(forwarding('web', pool(1, 2)));
    const dump: Kernel['dump'] = (request) => {
      const found = rig.kernel.dump(request);
      rig.plan(all(forwarding('web', pool(1, 2, 3))));
      return found;
    };
    expect(await rig.planner.miscounts(kernelWith(rig.kernel, { dump }))).toEqual([]);
  });

  it('is one element and its comment to give a frontend another owner', async () => {
    const rig = await started(forwarding('web', pool(1, 2)));
    expect(elements(rig.kernel, 'services')).toEqual([
      '10.96.0.1 . tcp . 80 comment "ns/web" : goto cluster-2-e',
    ]);
    const { commits, writes } = rig.kernel;
    rig.plan(all(forwarding('shop', pool(1, 2))));
    rig.take();
    expect(elements(rig.kernel, 'services')).toEqual([
      '10.96.0.1 . tcp . 80 comment "ns/shop" : goto cluster-2-e',
    ]);
    expect([rig.kernel.commits - commits, rig.kernel.writes - writes]).toEqual([1, 2]);
  });

  it('is the same number of tables, chains, sets and rules for 4,000 Services as for 2,000', async () => {
    const paths = Object.keys(allPaths) as (keyof typeof allPaths)[];
    const counts = await Promise.all(
      [2000, 4000].map(async (services) => {
        const list = Array.from({ length: services }, (_, i) => {
          const ip = `10.${100 + (i >> 12)}.${(i >> 4) & 0xff}.${i & 15}`;
          const frontends = [clusterIP(ip, paths[i % paths.length])];
          const endpoints = Array.from({ length: 1 + (i % 2) }, (_, e) => e + i);
          return forwarding(`s${i}`, pool(...endpoints), { frontends, local: pool(i) });
        });
        const { kernel } = await loaded(...list);
        const table = kernel.table(NFPROTO.IPv4, 'fairlead')!;
        const rules = [...table.chains.values()].reduce(
          (sum, chain) => sum + chain.rules.length,
          0,
        );
        const frontends = ['services', 'no-endpoint-services'].flatMap((set) =>
          elements(kernel, set),
        );
        expect(new Set(frontends.map((text) => text.split(' ')[0])).size).toBe(services);
        return { chains: table.chains.size, sets: table.sets.size, rules };
      }),
    );
    expect(counts[1]).toEqual(counts[0]);
  });

  it('is a map and two chains for a Service with session affinity, and none for others', async () => {
    const counted = async (...list: Forwarding[]) => {
      const rig = await started(...list);
      const { sets, chains } = rig.kernel.table(NFPROTO.IPv4, 'fairlead')!;
      return { sets: sets.size, chains: chains.size };
    };
    const frontends = [1, 2, 3].map((n) => clusterIP(`10.96.0.${n}`));
    const plain = await counted(forwarding('web', pool(1, 2), { frontends }));
    const sticky = { frontends, affinityTimeoutSeconds: 10800 };
    const few = await counted(forwarding('web', pool(1, 2), sticky));
    expect(few).toEqual({ sets: plain.sets + 1, chains: plain.chains + 2 });
    const shop = { affinityTimeoutSeconds: 60, frontends: [clusterIP('10.96.0.9')] };
    const two = [forwarding('web', pool(1, 2), sticky), forwarding('shop', pool(3, 4), shop)];
    const unsticky = two.map((one) => ({ ...one, affinityTimeoutSeconds: 0 }));
    const base = await counted(...unsticky);
    expect(await counted(...two)).toEqual({ sets: base.sets + 2, chains: base.chains + 4 });
  });

  it('does not include session affinity, except its pool, when endpoints change', async () => {
    const sticky = { affinityTimeoutSeconds: 10800 };
    const rig = await started(forwarding('web', pool(1, 2), sticky));
    rig.plan(all(forwarding('web', pool(1, 2, 3), sticky)));
    rig.take();
    const names = [...rig.kernel.table(NFPROTO.IPv4, 'fairlead')!.chains.keys()];
    expect(names.filter((name) => name.includes('/'))).toEqual([
      'recall-internal-ns/web/tcp/',
      'learn-10800-ns/web/tcp/',
    ]);
    expect(rig.planner.takeSweep).toBeUndefined();
    rig.plan(all(forwarding('web', pool(1, 2, 4), sticky)));
    rig.take();
    expect(rig.planner.takeSweep).toBeDefined();
  });
});

it('a client of a Service that moves is not left with an endpoint that goes at the same time', async () => {
  const sticky = { affinityTimeoutSeconds: 60 };
  const rig = await started(forwarding('web', pool(1, 2), sticky));
  expect(await rig.planner.takeSweep?.(rig.kernel)).toBeUndefined();
  learn(rig.kernel);
  const frontends = [clusterIP('10.96.0.2')];
  rig.plan(all(forwarding('web', pool(2), { ...sticky, frontends })));
  rig.take();
  const sweep = await rig.planner.takeSweep?.(rig.kernel);
  sweep?.committed(rig.kernel.applyNow(sweep.ops) as Applied);
  expect(elements(rig.kernel, clientsOfWeb)).toEqual([]);
});

describe('a deferred deletion in mode nftables', () => {
  it('is known to an audit that had read the object with other rules before', async () => {
    const frontends = [clusterIP('10.96.0.2')];
    const left = forwarding('left', pool(1, 2, 3), { frontends });
    const staying = [forwarding('web', pool(1)), forwarding('other', pool(1), { frontends: [] })];
    const rig = await started(left, ...staying);
    rig.plan(all(...staying));
    rig.take();
    rig.takeDeferred();
    const at = { family: NFPROTO.IPv4, table: 'fairlead' };
    const chain = [...chains(rig.kernel).keys()].find((name) => name.startsWith('pick-4-'))!;
    rig.kernel.foreign(batch({ kind: 'chainFlush', ...at, chain }));
    await rig.audit((key) => {
      if (!key.includes('web')) return;
      rig.takeDeferred();
      expect(chains(rig.kernel).has(chain)).toBe(false);
      const external = { ...clusterIP('10.96.0.2', 'outside'), kind: 'externalIP' as const };
      rig.plan(all(...staying, forwarding('left', pool(1, 2, 3), { frontends: [external] })));
    });
    rig.drain();
    expect(rig.kernel.ruleset()).toBe(await freshRuleset(config, environment, rig.planned));
  });

  it('is not forgotten when the kernel refuses a later batch', async () => {
    const sticky = forwarding('web', pool(1, 2), { affinityTimeoutSeconds: 60 });
    const rig = await started(sticky);
    rig.plan(all());
    rig.take();
    rig.plan(all(sticky));
    await rig.takeRefused();
    rig.drain();
    expect(rig.kernel.ruleset()).toBe(await freshRuleset(config, environment, all()));
  });

  it('is split into transactions if it is large, chains before their sets', async () => {
    const many = Array.from({ length: 150 }, (_, i) => {
      const frontends = [clusterIP(`10.96.1.${i}`)];
      return forwarding(`s${i}`, pool(1, 2), { frontends, affinityTimeoutSeconds: 60 });
    });
    const rig = await loaded(...many);
    const counted = () => {
      const { chains, sets } = rig.kernel.table(NFPROTO.IPv4, 'fairlead')!;
      const own = (names: Iterable<string>) => [...names].filter((name) => name.includes('/'));
      return [own(chains.keys()).length, own(sets.keys()).length];
    };
    expect(counted()).toEqual([300, 150]);
    rig.plan(all());
    rig.take();
    rig.takeDeferred();
    const steps = [1, 2].map(() => {
      rig.takeDeferred();
      return counted();
    });
    expect(steps[0]![0]).toBeGreaterThan(0);
    expect(steps[0]![1]).toBe(150);
    rig.drain();
    expect(counted()).toEqual([0, 0]);
    expect(rig.kernel.ruleset()).toBe(await freshRuleset(config, environment, rig.planned));
  });

  it('drops the clients of a Service port that is added again while its map waits', async () => {
    const sticky = forwarding('web', pool(1, 2), { affinityTimeoutSeconds: 60 });
    const rig = await started(sticky);
    learn(rig.kernel);
    rig.plan(all());
    rig.take();
    expect(elements(rig.kernel, clientsOfWeb)).toHaveLength(1);
    rig.plan(all(sticky));
    rig.take();
    expect(elements(rig.kernel, clientsOfWeb)).toEqual([]);
  });

  it('ages while the kernel rejects it, so that dependent objects can be deleted with it', async () => {
    const rig = await started();
    const at = { family: NFPROTO.IPv4, table: 'fairlead' };
    const expressions = compileRule([jump('foreign-1')]);
    rig.kernel.foreign(batch({ kind: 'chainAdd', ...at, chain: 'foreign-1', comment: '' }));
    await rig.audit();
    await rig.tryDeferred();
    rig.kernel.foreign(
      batch(
        { kind: 'chainAdd', ...at, chain: 'foreign-2', comment: '' },
        { kind: 'ruleAdd', ...at, chain: 'foreign-2', expressions, comment: '' },
      ),
    );
    await rig.audit();
    await rig.tryDeferred();
    expect([...chains(rig.kernel).keys()]).toContain('foreign-1');
    await rig.tryDeferred();
    expect([...chains(rig.kernel).keys()].filter((name) => name.includes('foreign'))).toEqual([]);
    expect(rig.planner.takeDeferred).toBeUndefined();
  });
});

describe('a repair in mode nftables', () => {
  it('recreates the table of an earlier layout in one transaction', async () => {
    const at = { family: NFPROTO.IPv4, table: 'fairlead' };
    const comment = '';
    // Session affinity was remembered in one map for all Services.
    const client = ['ipv4_addr', 'ipv4_addr', 'inet_proto', 'inet_service'] as const;
    const affinity = map('affinity', client, ['ipv4_addr', 'inet_service'], comment);
    const definitions = Object.values(setDefinitions('IPv4'));
    const kept = definitions.filter(({ name }) => !name.startsWith('sticky-'));
    const sets = [...kept, { ...affinity, size: 262_144 }];
    const rules = [
      matchProtocol('TCP'),
      dnatTo('IPv4', [saddr('IPv4'), ...frontendSelectors('IPv4')], 'affinity'),
    ];
    const chain = 'sticky-pick-2-e';
    const old: NftOp[] = [
      { kind: 'tableAdd', ...at, comment },
      ...sets.map((each): NftOp => ({ kind: 'setAdd', ...fieldsOfSet('IPv4', at.table, each) })),
      { kind: 'chainAdd', ...at, chain, comment },
      { kind: 'ruleAdd', ...at, chain, expressions: compileRule(rules), comment },
    ];
    const rig = new Rig(config, environment);
    rig.kernel.foreign(batch(...old));
    const { commits } = rig.kernel;
    await rig.start(all(forwarding('web', pool(1, 2), { affinityTimeoutSeconds: 60 })));
    expect(rig.kernel.commits).toBe(commits + 1);
    expect(rig.kernel.ruleset()).toBe(await freshRuleset(config, environment, rig.planned));
    expect(await rig.audit()).toEqual(noDrift);
  });

  it('recreates the table if an element has what none of ours has', async () => {
    const rig = await started(forwarding('web', pool(1)));
    const ofSet = { family: NFPROTO.IPv4, table: 'fairlead', set: 'cluster-ips' };
    const element = { keyLength: 4, dataLength: 0, count: 1, shape: ElementShape.comment };
    const entries = Uint8Array.of(10, 96, 0, 9, 4, 0, 0, 0, ...Buffer.from('mine'));
    rig.kernel.foreign(batch({ kind: 'elementsAdd', ...ofSet, ...element, entries }));
    const { missing } = await rig.audit();
    expect(missing).toBeGreaterThan(10);
    expect(rig.kernel.ruleset()).toBe(await freshRuleset(config, environment, rig.planned));
  });

  it("restores a rule although another program's verdict leads to it from the wrong hook", async () => {
    const rig = await started(forwarding('web', pool(1, 2)));
    const at = { family: NFPROTO.IPv4, table: 'fairlead' };
    const set = { set: 'no-endpoint-services', shape: ElementShape.verdict, keyLength: 12 };
    const entries = bytes('0a600009', '06000000', '00500000', verdict(VERDICT.goto, 'pick-2-e'));
    const add = { kind: 'elementsAdd', ...at, ...set, dataLength: 0, count: 1, entries } as const;
    rig.kernel.foreign(batch({ kind: 'chainFlush', ...at, chain: 'pick-2-e' }, add));
    expect(await rig.audit()).toMatchObject({ wrong: 1, unwanted: 1 });
    rig.drain();
    expect(rig.kernel.ruleset()).toBe(await freshRuleset(config, environment, rig.planned));
  });

  it("deletes another program's base chain that has the name of a retired chain", async () => {
    const three = forwarding('web', pool(1, 2, 3));
    const rig = await started(three);
    rig.plan(all(forwarding('web', pool(1))));
    rig.take();
    const at = { family: NFPROTO.IPv4, table: 'fairlead', chain: 'cluster-4-e', comment: '' };
    const base = { type: 'filter', hook: 1, priority: -5, policy: 1 };
    rig.kernel.foreign(
      batch({ kind: 'chainDelete', ...at }, { kind: 'baseChainAdd', ...at, ...base }),
    );
    expect(await rig.audit()).toEqual({ missing: 0, wrong: 0, unwanted: 1 });
    rig.plan(all(three));
    rig.take();
    rig.drain();
    expect(rig.kernel.ruleset()).toBe(await freshRuleset(config, environment, rig.planned));
  });

  it('ignores other tables', async () => {
    const rig = await started(forwarding('web', pool(1, 2)));
    const theirs: NftOp[] = ['kube-proxy', 'filter'].flatMap((table) => [
      { kind: 'tableAdd', family: NFPROTO.IPv4, table, comment: '' },
      { kind: 'chainAdd', family: NFPROTO.IPv4, table, chain: 'services', comment: '' },
    ]);
    rig.kernel.foreign(batch(...theirs, { ...theirs[0], family: NFPROTO.IPv6 } as NftOp));
    const before = rig.kernel.ruleset();
    expect(await rig.audit()).toEqual(noDrift);
    expect(await rig.crash(all(forwarding('web', pool(1, 2))), environment)).toEqual(noDrift);
    expect(rig.kernel.ruleset()).toBe(before);
    await nftablesMode.cleanup(rig.kernel);
    expect(rig.kernel.ruleset()).toContain('table ip kube-proxy');
    expect(rig.kernel.ruleset()).not.toContain('fairlead');
  });

  it('reads again if a dump was interrupted, and stops after some attempts', async () => {
    const rig = await started(forwarding('web', pool(1, 2)));
    rig.kernel.interruptDumps(3);
    expect(await rig.audit()).toEqual(noDrift);
    rig.kernel.interruptDumps(100);
    await expect(rig.audit()).rejects.toThrow(KernelError);
  });
});

describe('the culprits of a refused batch', () => {
  const two = [
    forwarding('web', pool(1, 2)),
    forwarding('shop', pool(3, 4, 5), { frontends: [clusterIP('10.96.0.2')] }),
    forwarding('down', pool(), { frontends: [clusterIP('10.96.0.3', 'reject')] }),
  ];
  it.for([
    ['endpoints-e', '10.96.0.2 . tcp . 80 . 1', 'ns/shop/TCP'],
    ['endpoints-e', '10.96.0.1 . tcp . 80 . 0', 'ns/web/TCP'],
    ['services', '10.96.0.2 . tcp . 80', 'ns/shop/TCP'],
    ['no-endpoint-services', '10.96.0.3', 'ns/down/TCP'],
  ])('of %s { %s } is %s', async ([forSet, forKey, culprit]) => {
    const rig = await started();
    rig.plan(all(...two));
    const taken = rig.planner.take()!;
    rig.kernel.failNext({ code: 'ENFILE', forSet: forSet!, forKey: forKey! });
    const result = rig.kernel.applyNow(taken.ops);
    const failures = result.kind === 'failed' ? result.failures : [];
    expect(failures.flatMap((failure) => taken.culprits(failure))).toEqual([culprit]);
  });

  it('are unknown if the kernel names no element of a batch for several', async () => {
    const rig = await started();
    rig.plan(all(...two));
    const taken = rig.planner.take()!;
    const nowhere = { op: undefined, entry: undefined, code: 'ENOMEM', message: '' };
    expect(taken.culprits(nowhere)).toEqual([]);
    expect(taken.culprits({ ...nowhere, op: 0 })).toEqual([]);
  });

  it('are not searched among Forwardings that share an element', async () => {
    const rig = await started();
    rig.plan(all(...two));
    const taken = rig.planner.take()!;
    rig.kernel.failNext({ code: 'ENFILE', forSet: 'cluster-ips' });
    const result = rig.kernel.applyNow(taken.ops);
    const failures = result.kind === 'failed' ? result.failures : [];
    expect(failures.flatMap((failure) => taken.culprits(failure))).toEqual([]);
  });
});

describe('cleanup of mode nftables', () => {
  it('succeeds if there is nothing', async () => {
    const kernel = new FakeKernel();
    await nftablesMode.cleanup(kernel);
    expect(kernel.writes).toBe(0);
  });

  it('reports what the kernel refused', async () => {
    const rig = await started();
    rig.kernel.failNext({ code: 'EPERM' });
    await expect(nftablesMode.cleanup(rig.kernel)).rejects.toThrow('nft.table.delete');
  });
});

describe('the probe of mode nftables', () => {
  it('finds nothing missing in a complete kernel, and removes its objects', async () => {
    const kernel = new FakeKernel();
    expect(await nftablesMode.probe(kernel)).toEqual([]);
    expect(kernel.ruleset()).toBe('');
  });

  it('names what the kernel refuses', async () => {
    const kernel = new FakeKernel();
    kernel.failNext({ code: 'ENOENT', op: 1 });
    const [missing] = await nftablesMode.probe(kernel);
    expect(missing).toMatchObject({ feature: 'set services (ENOENT)' });
  });

  it('throws without permission', async () => {
    const kernel = new FakeKernel();
    kernel.failNext({ code: 'EPERM', op: 0 });
    await expect(nftablesMode.probe(kernel)).rejects.toThrow('EPERM');
  });
});

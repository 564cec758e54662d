/** What leads packets to a chain comes into force after the chain: modes nftables and ipvs. */
import { describe, expect, it } from 'vitest';
import { KernelError } from '../../../src/kernel/errors.ts';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { ipvsMode } from '../../../src/modes/ipvs/mode.ts';
import { type Batch, defaultIPVSSettings, type Environment } from '../../../src/modes/mode.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import type { Planner } from '../../../src/modes/planner.ts';
import { allPaths } from '../../../src/state/paths.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import { noPause } from '../../../src/time/pacer.ts';
import { batch } from '../../conformance/ops.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { address, cidr } from '../state/build.ts';
import { clusterIP, config as common, forwarding, pool } from './nftables/forwardings.ts';

const environment: Environment = {
  serviceCIDRs: [],
  nodePortAddresses: [address('192.168.0.1')],
  hostAddresses: [],
};
const config = { ...common, ipvs: defaultIPVSSettings };
const modes = [
  { mode: nftablesMode, table: 'fairlead', key: '198.51.100.1 . tcp . 80' },
  { mode: ipvsMode, table: 'fairlead-ipvs', key: 'TCP 198.51.100.1:80' },
] as const;

/** A Service at a load-balancer address for these clients. */
function guarded(client: string, endpoints: readonly number[] = [1]): Forwarding {
  const at = address('198.51.100.1');
  const frontend = { kind: 'loadBalancerIP', address: at, paths: allPaths.outside } as const;
  const frontends = [{ ...frontend, port: 80 }];
  return forwarding('web', pool(...endpoints), { frontends, sourceRanges: [cidr(client)] });
}

/** A planner whose kernel notes what it holds after each transaction of a batch. */
class Node {
  readonly kernel = new FakeKernel();
  readonly planner: Planner;
  readonly #table: string;

  constructor({ mode, table }: (typeof modes)[number]) {
    this.planner = mode.planner(config, environment);
    this.#table = table;
  }

  async start(...wanted: readonly Forwarding[]): Promise<void> {
    const found = await this.planner.observe(this.kernel, noPause);
    const repair = await found.restore(wanted, noPause);
    for (const one of wanted) repair.compare(one);
    await repair.finish(noPause);
    await this.apply(this.planner.take()!);
  }

  /** Returns what is held after each call of the kernel. */
  async apply(taken: Batch): Promise<Held[]> {
    const { kernel } = this;
    const held: Held[] = [];
    const noting = new Proxy(kernel, {
      get: (_, name: keyof FakeKernel) => {
        if (name !== 'apply') return kernel[name];
        return async (ops: Uint8Array) => {
          const result = await kernel.apply(ops);
          held.push(this.held());
          return result;
        };
      },
    });
    const result = await (taken.apply?.(noting) ?? noting.apply(taken.ops));
    if (result.kind === 'failed') throw new Error(JSON.stringify(result.failures));
    taken.committed(result);
    return held;
  }

  held(): Held {
    const table = this.kernel.table(NFPROTO.IPv4, this.#table)!;
    const verdicts = [...table.sets].flatMap(([set, { elements }]) =>
      [...elements.values()].flatMap(({ verdict }) => (verdict ? [[set, verdict.chain]] : [])),
    );
    return {
      chains: new Map([...table.chains].map(([name, { rules }]) => [name, rules.length])),
      leadsTo: new Map(verdicts.map(([set, chain]) => [set!, chain!])),
      sizes: new Map([...table.sets].map(([name, { elements }]) => [name, elements.size])),
    };
  }
}

interface Held {
  /** The number of rules by chain. */
  readonly chains: ReadonlyMap<string, number>;
  /** The chain that the only element of a map leads to, by map. */
  readonly leadsTo: ReadonlyMap<string, string>;
  /** The number of elements by set. */
  readonly sizes: ReadonlyMap<string, number>;
}

const firewalls = ({ chains }: Held): string[] =>
  [...chains.keys()].filter((name) => /^firewall-[0-9a-f]{32}$/.test(name));

describe.for(modes)('in mode $mode.name', (mode) => {
  it('other source ranges lead to their chain a transaction after it was made', async () => {
    const node = new Node(mode);
    const before = guarded('192.0.2.0/24');
    await node.start(before);
    const [old] = firewalls(node.held());
    node.planner.change(before, guarded('203.0.113.0/24'));
    const [made, led] = await node.apply(node.planner.take()!);
    const [now] = firewalls(made!).filter((name) => name !== old);
    expect(made!.leadsTo.get('firewall-ips')).toBe(old);
    expect(made!.chains.get(now!)).toBe(2);
    expect(led!.leadsTo.get('firewall-ips')).toBe(now);
  });

  it('the same chain again, or no chain, is one transaction', async () => {
    const node = new Node(mode);
    const before = guarded('192.0.2.0/24', [1]);
    await node.start(before);
    const after = guarded('192.0.2.0/24', [2]);
    node.planner.change(before, after);
    expect(await node.apply(node.planner.take()!)).toHaveLength(1);
  });

  it('a chain that is still there needs no transaction of its own', async () => {
    const node = new Node(mode);
    const [one, other] = [guarded('192.0.2.0/24'), guarded('203.0.113.0/24')];
    await node.start(one);
    node.planner.change(one, other);
    expect(await node.apply(node.planner.take()!)).toHaveLength(2);
    node.planner.change(other, one);
    expect(await node.apply(node.planner.take()!)).toHaveLength(1);
  });

  it('what cannot be made without the table is one transaction with it', async () => {
    const node = new Node(mode);
    const wanted = guarded('192.0.2.0/24');
    await node.start();
    node.kernel.foreign(batch({ kind: 'tableDelete', family: NFPROTO.IPv4, table: mode.table }));
    const found = await node.planner.observe(node.kernel, noPause);
    const repair = await found.restore([wanted], noPause);
    repair.compare(wanted);
    await repair.finish(noPause);
    const held = await node.apply(node.planner.take()!);
    expect(held).toHaveLength(1);
    expect(firewalls(held[0]!)).toEqual([held[0]!.leadsTo.get('firewall-ips')]);
  });

  it('a refused second transaction names its owner, and leaves nothing once it is repaired', async () => {
    const node = new Node(mode);
    await node.start();
    const empty = node.kernel.ruleset();
    node.planner.change(undefined, guarded('192.0.2.0/24'));
    const taken = node.planner.take()!;
    const { kernel } = node;
    let calls = 0;
    const refusing = {
      apply: (ops: Uint8Array) => {
        calls += 1;
        if (calls === 2) kernel.failNext({ code: 'ENOMEM', forKey: mode.key });
        return kernel.apply(ops);
      },
    } as FakeKernel;
    const result = await taken.apply!(refusing);
    expect(result).toMatchObject({ kind: 'failed', partly: true });
    const failures = result.kind === 'failed' ? result.failures : [];
    const culprits = failures.flatMap((failure) => taken.culprits(failure));
    expect(new Set(culprits)).toEqual(new Set(['ns/web/TCP']));
    taken.refused();
    expect(kernel.ruleset()).not.toBe(empty);
    const found = await node.planner.observe(kernel, noPause);
    const repair = await found.restore([], noPause);
    await repair.finish(noPause);
    const repaired = node.planner.take();
    if (repaired !== undefined) await node.apply(repaired);
    while (node.planner.takeDeferred !== undefined) {
      const late = await node.planner.takeDeferred(kernel);
      if (late !== undefined) await node.apply(late);
    }
    expect(kernel.ruleset()).toBe(empty);
  });
});

it('a first transaction is in force when the second one could not be sent', async () => {
  const node = new Node(modes[0]);
  await node.start();
  const empty = node.kernel.ruleset();
  node.planner.change(undefined, guarded('192.0.2.0/24'));
  const taken = node.planner.take()!;
  const closing = {
    apply: async (ops: Uint8Array) => {
      if (node.kernel.ruleset() === empty) return node.kernel.apply(ops);
      const words = 'Bad file descriptor';
      throw new KernelError({ operation: 'kernel.apply', subject: 'here', code: 'EBADF', words });
    },
  } as FakeKernel;
  const result = await taken.apply!(closing);
  expect(result).toMatchObject({ kind: 'failed', partly: true, failures: [{ code: 'EBADF' }] });
});

describe('in mode nftables', () => {
  it.for([
    ['outside', [/^external-local-2-2-/, 1], [/^external-2-/, 1], [/^external-2-/, 0]],
    // Packets that come later are dropped as well.
    ['outsideElsewhere', [/^external-local-2-2-/, 1], [/^external-local-2-0-/, 0]],
  ] as const)('a local pool goes after what leads to it: now %s', async ([paths, ...expected]) => {
    const node = new Node(modes[0]);
    const web = (paths: keyof typeof allPaths): Forwarding => {
      const frontends = [clusterIP('10.96.0.1', paths)];
      return forwarding('web', pool(1, 2), { frontends, local: pool(1) });
    };
    const before = web('outsideLocal');
    await node.start(before);
    node.planner.change(before, web(paths));
    const held = await node.apply(node.planner.take()!);
    const found = held.map(({ leadsTo, sizes }) => [
      leadsTo.get('services'),
      sizes.get('local-endpoints'),
    ]);
    expect(found).toEqual(expected.map(([chain, size]) => [expect.stringMatching(chain), size]));
  });

  it('a new frontend refuses clients before it translates', async () => {
    const node = new Node(modes[0]);
    await node.start();
    node.planner.change(undefined, guarded('192.0.2.0/24'));
    const [made, led] = await node.apply(node.planner.take()!);
    expect(made!.leadsTo.has('firewall-ips')).toBe(true);
    expect(made!.leadsTo.has('services')).toBe(false);
    expect(led!.leadsTo.has('services')).toBe(true);
  });

  it('another number of places leads to its chain a transaction after it was made', async () => {
    const node = new Node(modes[0]);
    const before = guarded('192.0.2.0/24', [1]);
    await node.start(before);
    node.planner.change(before, guarded('192.0.2.0/24', [1, 2, 3]));
    const [made, led] = await node.apply(node.planner.take()!);
    const [chain, was] = [led!, made!].map(({ leadsTo }) => leadsTo.get('services')!);
    expect(was).not.toBe(chain);
    expect(made!.chains.get(chain!)).toBe(led!.chains.get(chain!));
  });
});

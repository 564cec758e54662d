import { describe, expect, it } from 'vitest';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { nftOps } from '../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../src/kernel/records.ts';
import type { ModeName } from '../../../src/modes/mode.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import type { ProxyMode } from '../../../src/modes/proxy-mode.ts';
import type { Family } from '../../../src/net/address.ts';
import { addSign, keepsProxyTable, removeSign } from '../../../src/takeover/sign.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { kubeProxy, merge, type Rules, sep, svc, write } from './rules.ts';
import { Scene } from './scene.ts';

/** What a kernel holds that never had kube-proxy on it. */
function without(table: string, rules: Rules): string {
  const kernel = new FakeKernel();
  write(kernel, table, rules);
  return kernel.ruleset();
}

const docker: Rules = {
  PREROUTING: ['DOCKER'],
  OUTPUT: ['DOCKER'],
  POSTROUTING: [''],
  DOCKER: [''],
};

describe('the takeover from kube-proxy', () => {
  it('removes its jumps and chains of both families, and nothing else', async () => {
    const kernel = new FakeKernel();
    write(kernel, 'nat', merge(docker, kubeProxy, docker));
    write(kernel, 'nat', kubeProxy, NFPROTO.IPv6);
    const scene = new Scene(kernel);
    await scene.clock.pass(0);
    const left = merge({ PREROUTING: [], OUTPUT: [], POSTROUTING: [] }, docker, docker);
    const expected = new FakeKernel();
    write(expected, 'nat', left);
    write(expected, 'nat', { PREROUTING: [], OUTPUT: [], POSTROUTING: [] }, NFPROTO.IPv6);
    expect(kernel.ruleset()).toBe(expected.ruleset());
    expect(scene.events).toMatchObject([
      { kind: 'removed', again: false, leftovers: { family: 'IPv4', kept: [] } },
      { kind: 'removed', again: false, leftovers: { family: 'IPv6', kept: [] } },
    ]);
    const [first] = scene.events;
    expect(first?.kind === 'removed' && first.leftovers.jumps).toHaveLength(3);
    expect(first?.kind === 'removed' && first.leftovers.chains).toHaveLength(5);
    // Another comparison would wait for a multiple of what the first one took.
    expect(scene.verifications).toBe(1);
  });

  it('removes the table of its nftables mode', async () => {
    const kernel = new FakeKernel();
    write(kernel, 'kube-proxy', kubeProxy);
    write(kernel, 'kube-proxy', kubeProxy, NFPROTO.IPv6);
    write(kernel, 'other', docker);
    const scene = new Scene(kernel);
    await scene.clock.pass(0);
    expect(kernel.ruleset()).toBe(without('other', docker));
    expect(scene.kinds()).toEqual(['removed', 'removed']);
  });

  it('waits until the programmed state is verified, and then looks again', async () => {
    const kernel = new FakeKernel();
    write(kernel, 'nat', kubeProxy);
    const before = kernel.ruleset();
    const scene = new Scene(kernel);
    scene.verified = 'waiting';
    await scene.clock.pass(3_600_000);
    expect(kernel.ruleset()).toBe(before);
    // kube-proxy continues in that time.
    const other = 'KUBE-SVC-GNZBNJ2PO5MGZ6GT';
    write(kernel, 'nat', { [other]: [sep], 'KUBE-SERVICES': [other] });
    scene.release();
    await scene.clock.pass(0);
    expect(kernel.ruleset()).not.toContain('KUBE-');
    expect(scene.verifications).toBe(1);
  });

  it('verifies nothing and writes nothing if kube-proxy has never run', async () => {
    const kernel = new FakeKernel();
    write(kernel, 'nat', docker);
    const scene = new Scene(kernel);
    await scene.clock.pass(3_600_000);
    expect(scene.verifications).toBe(0);
    expect(kernel.commits).toBe(0);
    expect(scene.events).toEqual([]);
  });

  it('keeps a chain that other rules refer to, with what it needs, and reports it once', async () => {
    const kernel = new FakeKernel();
    const runtime: Rules = { PREROUTING: ['KUBE-HOSTPORTS'], 'KUBE-HOSTPORTS': ['KUBE-HP-A'] };
    const port: Rules = { 'KUBE-HP-A': ['KUBE-MARK-MASQ', ''] };
    const user: Rules = { OUTPUT: ['mine'], mine: [svc] };
    write(kernel, 'nat', merge(kubeProxy, runtime, port, user));
    const scene = new Scene(kernel);
    await scene.clock.pass(600_000);
    const text = kernel.ruleset();
    for (const chain of [svc, sep, 'KUBE-MARK-MASQ', 'KUBE-HOSTPORTS', 'KUBE-HP-A', 'mine']) {
      expect(text).toContain(`chain ${chain} {`);
    }
    for (const chain of ['KUBE-SERVICES', 'KUBE-POSTROUTING']) expect(text).not.toContain(chain);
    expect(scene.kinds()).toEqual(['removed', 'kept']);
    expect(scene.events[1]).toMatchObject({
      family: 'IPv4',
      kept: expect.arrayContaining([
        { table: 'nat', chain: 'KUBE-MARK-MASQ', because: 'chain KUBE-HP-A refers to it' },
        { table: 'nat', chain: svc, because: 'chain mine refers to it' },
        { table: 'nat', chain: sep, because: `chain ${svc} refers to it` },
      ]),
    });
  });

  it("keeps a user's jump from a built-in chain to one of kube-proxy's chains", async () => {
    const kernel = new FakeKernel();
    write(kernel, 'nat', merge(kubeProxy, { PREROUTING: ['KUBE-MARK-MASQ'] }));
    const scene = new Scene(kernel);
    await scene.clock.pass(0);
    expect(kernel.ruleset()).toContain('iptables -j KUBE-MARK-MASQ');
    expect(kernel.ruleset()).not.toContain('KUBE-SERVICES');
    expect(scene.kinds()).toEqual(['removed', 'kept']);
  });

  it('reports that kube-proxy has written its rules again, and removes them again', async () => {
    const kernel = new FakeKernel();
    write(kernel, 'nat', kubeProxy);
    const scene = new Scene(kernel);
    await scene.clock.pass(10_000);
    write(kernel, 'nat', kubeProxy);
    await scene.clock.pass(60_000);
    expect(kernel.ruleset()).not.toContain('KUBE-');
    expect(scene.events).toMatchObject([
      { kind: 'removed', again: false },
      { kind: 'removed', again: true },
    ]);
  });

  it('leaves chains to the mode that uses them itself, but not the table', async () => {
    const kernel = new FakeKernel();
    write(kernel, 'nat', kubeProxy);
    write(kernel, 'kube-proxy', docker);
    const scene = new Scene(kernel, 'iptables');
    await scene.clock.pass(0);
    expect(kernel.ruleset()).toBe(without('nat', kubeProxy));
    expect(scene.kinds()).toEqual(['removed']);
  });

  it("removes the chains of kube-proxy's ipvs mode from among our mode's chains", async () => {
    const kernel = new FakeKernel();
    const filter = { INPUT: ['KUBE-NODEPORTS', ''], 'KUBE-NODEPORTS': [''] };
    const extra = { 'KUBE-IPVS-FILTER': [''], 'KUBE-NODE-PORT': [''] };
    write(kernel, 'filter', merge({ INPUT: ['KUBE-IPVS-FILTER'] }, filter, extra));
    const scene = new Scene(kernel, 'iptables');
    await scene.clock.pass(0);
    expect(kernel.ruleset()).toBe(without('filter', filter));
    expect(scene.events).toMatchObject([
      { kind: 'removed', leftovers: { jumps: [{ chain: 'INPUT' }], chains: [{}, {}] } },
    ]);
  });

  it('ignores references in a rule that our own mode is about to replace', async () => {
    const kernel = new FakeKernel();
    const leftover = { 'KUBE-SERVICES': ['KUBE-NODE-PORT'], 'KUBE-NODE-PORT': ['KUBE-MARK-MASQ'] };
    write(
      kernel,
      'nat',
      merge({ PREROUTING: ['KUBE-SERVICES'], 'KUBE-MARK-MASQ': [''] }, leftover),
    );
    const scene = new Scene(kernel, 'iptables');
    scene.verified = 'waiting';
    await scene.clock.pass(1000);
    const flush = new RecordWriter(nftOps);
    flush.write('chainFlush', { family: NFPROTO.IPv4, table: 'nat', chain: 'KUBE-SERVICES' });
    kernel.foreign(flush.finish());
    scene.release();
    await scene.clock.pass(0);
    expect(scene.kinds()).toEqual(['removed']);
    expect(kernel.ruleset()).toContain('KUBE-SERVICES');
    expect(kernel.ruleset()).not.toContain('KUBE-NODE-PORT');
  });

  it('retries what the kernel refused, and one family does not wait for the other', async () => {
    const kernel = new FakeKernel();
    write(kernel, 'nat', kubeProxy);
    write(kernel, 'nat', kubeProxy, NFPROTO.IPv6);
    kernel.failNext({ code: 'EBUSY', op: 1 });
    const scene = new Scene(kernel);
    await scene.clock.pass(0);
    expect(scene.kinds()).toEqual(['removed', 'failed']);
    expect(scene.events[1]).toMatchObject({
      of: 'IPv4',
      error: { message: expect.stringContaining('(EBUSY)') },
    });
    await scene.clock.pass(1000);
    expect(kernel.ruleset()).not.toContain('KUBE-');
    expect(scene.kinds()).toEqual(['removed', 'failed', 'removed']);
  });

  it('does not use a reading during which another program wrote', async () => {
    const kernel = new FakeKernel();
    write(kernel, 'nat', kubeProxy);
    kernel.interruptDumps(1);
    const scene = new Scene(kernel);
    await scene.clock.pass(0);
    expect(kernel.commits).toBe(0);
    await scene.clock.pass(1000);
    expect(scene.kinds()).toEqual(['failed', 'removed']);
  });
});

describe("the sign in kube-proxy's table", () => {
  const signed = { signed: (): readonly Family[] => ['IPv4'] };
  const chains = (kernel: FakeKernel, family: number = NFPROTO.IPv4): string[] | undefined => {
    const table = kernel.table(family, 'kube-proxy');
    return table && [...table.chains.keys()];
  };
  const sign = ['fairlead-runs-nftables'];
  const removeTable = (kernel: FakeKernel): void => {
    if (kernel.table(NFPROTO.IPv4, 'kube-proxy') === undefined) return;
    const writer = new RecordWriter(nftOps);
    writer.write('tableDelete', { family: NFPROTO.IPv4, table: 'kube-proxy' });
    kernel.foreign(writer.finish());
  };

  it('takes the place of what kube-proxy has left, in one transaction', async () => {
    const kernel = new FakeKernel();
    write(kernel, 'kube-proxy', kubeProxy);
    write(kernel, 'kube-proxy', kubeProxy, NFPROTO.IPv6);
    const scene = new Scene(kernel, 'nftables', signed);
    await scene.clock.pass(0);
    expect(chains(kernel)).toEqual(sign);
    expect(chains(kernel, NFPROTO.IPv6)).toBeUndefined();
    expect(kernel.commits).toBe(2);
    expect(scene.kinds()).toEqual(['removed', 'removed']);
    await scene.clock.pass(600_000);
    expect(kernel.commits).toBe(2);
    expect(scene.events).toHaveLength(2);
  });

  it('is there before our rules are verified, where kube-proxy never was', async () => {
    const kernel = new FakeKernel();
    const scene = new Scene(kernel, 'nftables', signed);
    scene.verified = 'waiting';
    await scene.clock.pass(0);
    expect(chains(kernel)).toEqual(sign);
    expect(scene.verifications).toBe(0);
    expect(scene.events).toEqual([]);
  });

  it('stays when kube-proxy has used the table again, and goes with a mode that has none', async () => {
    const kernel = new FakeKernel();
    const families: Family[] = ['IPv4'];
    const scene = new Scene(kernel, 'nftables', { signed: () => families });
    await scene.clock.pass(0);
    write(kernel, 'kube-proxy', kubeProxy);
    await scene.clock.pass(60_000);
    expect(chains(kernel)).toEqual(sign);
    expect(scene.events).toMatchObject([{ kind: 'removed', again: true }]);
    families.pop();
    scene.verified = 'waiting';
    await scene.clock.pass(60_000);
    expect(chains(kernel)).toEqual(sign);
    scene.release();
    await scene.clock.pass(0);
    expect(chains(kernel)).toBeUndefined();
    expect(scene.events).toHaveLength(1);
  });

  it('is made again as soon as another program has removed it', async () => {
    const kernel = new FakeKernel();
    const scene = new Scene(kernel, 'nftables', signed);
    await scene.clock.pass(0);
    removeTable(kernel);
    expect(chains(kernel)).toBeUndefined();
    await scene.clock.pass(1000);
    expect(chains(kernel)).toEqual(sign);
  });

  it('is made again as soon in a family that has one only later', async () => {
    const kernel = new FakeKernel();
    const families: Family[] = [];
    const scene = new Scene(kernel, 'nftables', { signed: () => families });
    await scene.clock.pass(0);
    families.push('IPv4');
    await scene.clock.pass(60_000);
    expect(chains(kernel)).toEqual(sign);
    removeTable(kernel);
    await scene.clock.pass(0);
    expect(chains(kernel)).toEqual(sign);
  });

  it('is not written any more once the takeover has ended', async () => {
    const kernel = new FakeKernel();
    const scene = new Scene(kernel, 'nftables', signed);
    await scene.clock.pass(0);
    const release = kernel.hold();
    removeTable(kernel);
    let isOver = false;
    const ended = scene.end().then(() => {
      isOver = true;
    });
    await scene.clock.pass(0);
    expect(isOver).toBe(false);
    release();
    await ended;
    removeTable(kernel);
    await scene.clock.pass(60_000);
    expect(chains(kernel)).toBeUndefined();
  });

  it('is for a mode nftables that runs and was asked for', () => {
    const modes = ['', 'nftables', 'iptables'] as const;
    const kept = modes.flatMap((asked) =>
      modes
        .slice(1)
        .flatMap((name) =>
          keepsProxyTable({ mode: asked }, { name: name as ModeName }) ? [[asked, name]] : [],
        ),
    );
    expect(kept).toEqual([['nftables', 'nftables']]);
  });

  it('can be removed while kube-proxy uses the table, which stays', async () => {
    const kernel = new FakeKernel();
    await addSign(kernel, 'IPv4');
    write(kernel, 'kube-proxy', kubeProxy);
    expect(await removeSign(kernel, 'IPv4')).toBe(true);
    expect(kernel.ruleset()).toBe(without('kube-proxy', kubeProxy));
    expect(await removeSign(kernel, 'IPv4')).toBe(false);
    expect(kernel.ruleset()).toBe(without('kube-proxy', kubeProxy));
  });
});

describe('the takeover from another mode of Fairlead', () => {
  /** A mode that owns one table of this name. */
  function tableMode(name: ModeName, table: string): ProxyMode & { cleanups: number } {
    const at = (kernel: FakeKernel) => kernel.table(NFPROTO.IPv4, table);
    return {
      ...nftablesMode,
      name,
      hasKubeProxyNames: name === 'iptables',
      cleanups: 0,
      owned: async (kernel) => {
        const isThere = at(kernel as FakeKernel) !== undefined;
        return isThere ? [{ object: `table ip ${table}`, because: 'of its name' }] : [];
      },
      async cleanup(kernel) {
        this.cleanups += 1;
        const writer = new RecordWriter(nftOps);
        writer.write('tableDelete', { family: NFPROTO.IPv4, table });
        const result = await kernel.apply(writer.finish());
        if (result.kind === 'failed') throw new Error(result.failures[0]!.code);
      },
    };
  }

  const object = { object: 'table ip before', because: 'of its name' };

  it('removes the objects of that mode once ours is verified, and keeps the rest', async () => {
    const kernel = new FakeKernel();
    write(kernel, 'before', docker);
    write(kernel, 'other', docker);
    const modes = [nftablesMode, tableMode('ipvs', 'before')];
    const scene = new Scene(kernel, 'nftables', { modes });
    scene.verified = 'waiting';
    const held = kernel.ruleset();
    await scene.clock.pass(600_000);
    expect(kernel.ruleset()).toBe(held);
    scene.release();
    await scene.clock.pass(0);
    expect(kernel.ruleset()).toBe(without('other', docker));
    expect(scene.events).toEqual([
      { kind: 'replaced', mode: 'ipvs', by: 'nftables', objects: [object] },
    ]);
  });

  it('ignores the running mode and modes without objects, and looks once', async () => {
    const kernel = new FakeKernel();
    write(kernel, 'before', docker);
    const [own, none] = [tableMode('nftables', 'before'), tableMode('ipvs', 'nowhere')];
    const scene = new Scene(kernel, 'nftables', { modes: [own, none] });
    await scene.clock.pass(600_000);
    expect(kernel.ruleset()).toBe(without('before', docker));
    expect([own.cleanups, none.cleanups, scene.verifications]).toEqual([0, 0, 0]);
    expect(scene.events).toEqual([]);
  });

  it("retries what the kernel refused, and kube-proxy's rules do not wait for it", async () => {
    const kernel = new FakeKernel();
    write(kernel, 'before', docker);
    write(kernel, 'nat', kubeProxy, NFPROTO.IPv6);
    kernel.failNext({ code: 'EBUSY' });
    const modes = [nftablesMode, tableMode('ipvs', 'before')];
    const scene = new Scene(kernel, 'nftables', { modes });
    await scene.clock.pass(0);
    expect(scene.events).toMatchObject([
      { kind: 'removed' },
      { kind: 'failed', of: 'ipvs', error: { message: 'EBUSY' } },
    ]);
    await scene.clock.pass(1000);
    expect(scene.kinds()).toEqual(['removed', 'failed', 'replaced']);
    expect(kernel.ruleset()).not.toContain('table ip before');
  });

  it("finds iptables' objects as kube-proxy's, so that what others need is kept", async () => {
    const kernel = new FakeKernel();
    const hairpin = { 'KUBE-POSTROUTING': ['KUBE-HAIRPIN'], 'KUBE-HAIRPIN': [''] };
    write(kernel, 'nat', merge(kubeProxy, hairpin, { 'KUBE-HP-A': ['KUBE-MARK-MASQ'] }));
    const modes = [nftablesMode, tableMode('iptables', 'nat')];
    const scene = new Scene(kernel, 'nftables', { modes });
    await scene.clock.pass(0);
    expect(scene.events).toMatchObject([
      { kind: 'replaced', mode: 'iptables', by: 'nftables' },
      { kind: 'kept', kept: [{ chain: 'KUBE-MARK-MASQ' }] },
    ]);
    expect(kernel.ruleset()).toContain('KUBE-HP-A');
    expect(kernel.ruleset()).not.toMatch(/KUBE-(SERVICES|HAIRPIN)/);
    write(kernel, 'nat', kubeProxy);
    await scene.clock.pass(60_000);
    expect(scene.events.at(-1)).toMatchObject({ kind: 'removed', again: true });
  });
});

describe('named counters of kube-proxy', () => {
  const names = ['ct_state_invalid_dropped_pkts', 'localhost_nps_accepted_pkts'];
  const counting = (): FakeKernel => {
    const kernel = new FakeKernel();
    for (const name of [...names, 'mine']) kernel.accts.packets.set(name, 3);
    return kernel;
  };

  it('are removed by name, and those of other programs are kept', async () => {
    const kernel = counting();
    const scene = new Scene(kernel);
    await scene.clock.pass(600_000);
    expect([...kernel.accts.packets.keys()]).toEqual(['mine']);
    expect(scene.events).toEqual([{ kind: 'counters', names }]);
  });

  it('are removed again when kube-proxy has written its rules again', async () => {
    const kernel = new FakeKernel();
    const scene = new Scene(kernel);
    await scene.clock.pass(10_000);
    kernel.accts.packets.set(names[0]!, 1);
    await scene.clock.pass(120_000);
    expect(kernel.accts.packets.size).toBe(1);
    write(kernel, 'nat', kubeProxy);
    await scene.clock.pass(60_000);
    expect(kernel.accts.packets.size).toBe(0);
    expect(scene.kinds()).toEqual(['removed', 'counters']);
  });

  it('are kept while our own mode counts in them', async () => {
    const kernel = counting();
    const scene = new Scene(kernel, 'iptables');
    await scene.clock.pass(600_000);
    expect(kernel.accts.packets.size).toBe(3);
    expect(scene.events).toEqual([]);
  });
});

describe('the takeover of iptables-legacy', () => {
  it("removes kube-proxy's rules once ours are verified, and keeps those of others", async () => {
    const kernel = new FakeKernel();
    kernel.legacy.write('IPv4', 'nat', merge(docker, kubeProxy, docker));
    kernel.legacy.write('IPv6', 'nat', kubeProxy);
    const scene = new Scene(kernel);
    scene.verified = 'waiting';
    await scene.clock.pass(600_000);
    expect(kernel.legacy.rules('IPv4', 'nat')).toEqual(merge(docker, kubeProxy, docker));
    scene.release();
    await scene.clock.pass(0);
    scene.release();
    await scene.clock.pass(0);
    expect(kernel.legacy.rules('IPv4', 'nat')).toEqual(merge(docker, docker));
    const emptied = { PREROUTING: [], OUTPUT: [], POSTROUTING: [] };
    expect(kernel.legacy.rules('IPv6', 'nat')).toEqual(emptied);
    expect(scene.events).toMatchObject([
      { kind: 'removed', again: false, leftovers: { backend: 'legacy', family: 'IPv4' } },
      { kind: 'removed', again: false, leftovers: { backend: 'legacy', family: 'IPv6' } },
      { kind: 'legacy', tables: ['iptables-legacy nat: 8 rules, 1 chains'] },
    ]);
  });

  it('removes them also while our own mode has chains of these names in nf_tables', async () => {
    const kernel = new FakeKernel();
    write(kernel, 'nat', kubeProxy);
    const ours = kernel.ruleset();
    kernel.legacy.write('IPv4', 'nat', kubeProxy);
    const scene = new Scene(kernel, 'iptables');
    await scene.clock.pass(0);
    expect(Object.keys(kernel.legacy.rules('IPv4', 'nat'))).not.toContain('KUBE-SERVICES');
    expect(kernel.ruleset()).toBe(ours);
  });

  it('keeps what others refer to, and what accepts if the policy is drop', async () => {
    const kernel = new FakeKernel();
    kernel.legacy.dropping.add('FORWARD');
    kernel.legacy.write('IPv4', 'nat', merge(kubeProxy, { 'KUBE-HP-A': ['KUBE-MARK-MASQ'] }));
    const filter = { FORWARD: ['KUBE-FORWARD'], 'KUBE-FORWARD': [''] };
    kernel.legacy.write('IPv4', 'filter', filter);
    const scene = new Scene(kernel);
    await scene.clock.pass(600_000);
    expect(kernel.legacy.rules('IPv4', 'filter')).toEqual(filter);
    expect(kernel.legacy.rules('IPv4', 'nat')).toMatchObject({
      'KUBE-HP-A': ['KUBE-MARK-MASQ'],
      'KUBE-MARK-MASQ': [''],
    });
    expect(scene.kinds()).toEqual(['removed', 'kept', 'legacy']);
    expect(scene.events[1]).toMatchObject({
      backend: 'legacy',
      kept: [{ chain: 'KUBE-MARK-MASQ' }, { chain: 'KUBE-FORWARD' }],
    });
  });

  it('is retried later and later while another program holds its lock, then looks each minute', async () => {
    const kernel = new FakeKernel();
    kernel.legacy.write('IPv6', 'nat', kubeProxy);
    kernel.legacy.isLocked = true;
    const scene = new Scene(kernel);
    await scene.clock.pass(123_100);
    const error = { code: 'EAGAIN' };
    const delays = [100, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000];
    expect(scene.events).toMatchObject([
      { kind: 'legacy' },
      ...delays.map((retryMs) => ({ kind: 'failed', of: 'ip6tables-legacy', error, retryMs })),
    ]);
    scene.events.length = 0;
    kernel.legacy.isLocked = false;
    await scene.clock.pass(60_000);
    kernel.legacy.write('IPv6', 'nat', kubeProxy);
    await scene.clock.pass(59_999);
    expect(scene.events).toMatchObject([{ kind: 'removed', again: false }]);
    await scene.clock.pass(1);
    expect(scene.events[1]).toMatchObject({ kind: 'removed', again: true });
  });

  it('reports once that other programs use it', async () => {
    const kernel = new FakeKernel();
    kernel.legacy.write('IPv4', 'nat', { PREROUTING: ['DOCKER'], DOCKER: [''] });
    kernel.legacy.write('IPv4', 'raw', { PREROUTING: [] });
    kernel.legacy.write('IPv6', 'filter', { INPUT: [''] });
    const scene = new Scene(kernel);
    await scene.clock.pass(600_000);
    const tables = [
      'iptables-legacy nat: 2 rules, 1 chains',
      'ip6tables-legacy filter: 1 rules, 0 chains',
    ];
    expect(scene.events).toEqual([{ kind: 'legacy', tables }]);
    expect(scene.verifications).toBe(0);
  });

  it('does not report empty tables', async () => {
    const kernel = new FakeKernel();
    kernel.legacy.write('IPv4', 'nat', { PREROUTING: [] });
    const scene = new Scene(kernel);
    await scene.clock.pass(1000);
    expect(scene.events).toEqual([]);
  });
});

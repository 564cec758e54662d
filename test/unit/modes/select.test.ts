import { describe, expect, it } from 'vitest';
import { KernelError } from '../../../src/kernel/errors.ts';
import type { MissingFeature } from '../../../src/kernel/nft/probe.ts';
import { type ModeRegistry, selectMode } from '../../../src/modes/index.ts';
import type { ModeName } from '../../../src/modes/mode.ts';
import type { ProxyMode } from '../../../src/modes/proxy-mode.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { withoutNetfilter } from '../../fake/without-netfilter.ts';

/** What probing a mode finds: `can`, what is missing, or that asking failed. */
type Probe = 'can' | readonly string[] | Error;

function registry(probes: Partial<Record<ModeName, Probe>>): ModeRegistry {
  const entries = Object.entries(probes) as [ModeName, Probe][];
  return new Map(entries.map(([name, probe]) => [name, double(name, probe)]));
}

function double(name: ModeName, found: Probe): ProxyMode {
  const probe = async (): Promise<MissingFeature[]> => {
    if (found instanceof Error) throw found;
    if (found === 'can') return [];
    return found.map((feature) => ({ feature, advice: `load ${feature}` }));
  };
  return { name, probe, metrics: [] } as unknown as ProxyMode;
}

/** `nftables`, or `nftables -> iptables because …`, or the error. */
async function chosen(
  requested: ModeName | '',
  probes: Partial<Record<ModeName, Probe>>,
): Promise<string> {
  try {
    const { mode, fallbacks } = await selectMode(requested, new FakeKernel(), registry(probes));
    const steps = fallbacks.map(({ from, to, reason }) => `${from} -> ${to}: ${reason}`);
    return [...steps, mode.name].join(' | ');
  } catch (error) {
    return String(error);
  }
}

const all = { nftables: 'can', ipvs: 'can', iptables: 'can', userspace: 'can' } as const;
const lacks = 'needs what this kernel lacks:';

describe('the selection of the mode', () => {
  it('uses the requested mode if it can run', async () => {
    for (const name of ['nftables', 'ipvs', 'iptables', 'userspace'] as const) {
      expect(await chosen(name, all)).toBe(name);
    }
  });

  it('uses the best one that can run if none is requested', async () => {
    expect(await chosen('', all)).toBe('nftables');
    expect(await chosen('', { ...all, nftables: ['fib'] })).toBe(
      `nftables -> iptables: ${lacks} fib: load fib | iptables`,
    );
  });

  it('falls back from nftables and from ipvs to iptables, and then to userspace', async () => {
    expect(await chosen('nftables', { ...all, nftables: ['fib', 'numgen'] })).toBe(
      `nftables -> iptables: ${lacks} fib: load fib; numgen: load numgen | iptables`,
    );
    expect(await chosen('ipvs', { ...all, ipvs: ['ip_vs'] })).toBe(
      `ipvs -> iptables: ${lacks} ip_vs: load ip_vs | iptables`,
    );
    expect(await chosen('iptables', { ...all, iptables: ['nat'] })).toBe(
      `iptables -> userspace: ${lacks} nat: load nat | userspace`,
    );
    expect(await chosen('ipvs', { nftables: 'can', userspace: 'can' })).toBe(
      'ipvs -> iptables: is not in this version | ' +
        'iptables -> userspace: is not in this version | userspace',
    );
  });

  it('fails if none can run, and reports the reasons', async () => {
    expect(await chosen('userspace', { nftables: 'can' })).toBe(
      'ModeError: no proxy mode can run: userspace is not in this version ' +
        '(--proxy-mode; there are: nftables)',
    );
    expect(await chosen('iptables', { iptables: ['nat'], userspace: ['tproxy'] })).toBe(
      `ModeError: no proxy mode can run: iptables ${lacks} nat: load nat; ` +
        `userspace ${lacks} tproxy: load tproxy (--proxy-mode; there are: iptables, userspace)`,
    );
  });

  it('does not fall back if access to the kernel is denied', async () => {
    const denied = new KernelError({ operation: 'x', subject: 'y', code: 'EPERM', words: 'no' });
    expect(await chosen('', { ...all, nftables: denied })).toBe('KernelError: x y: no (EPERM)');
  });

  it('treats packets as mode iptables does if none is requested, where the kernel can', async () => {
    const filters = ['match comment', 'match conntrack', 'match tcp'];
    for (const what of [...filters, 'match recent', 'target DNAT']) {
      const kernel = new FakeKernel();
      kernel.missingExtensions.add(what.split(' ')[1]!);
      const { mode, notAsIptables } = await selectMode('', kernel);
      expect(mode.localhost ?? []).toEqual(filters.includes(what) ? [] : ['IPv4']);
      const isLacking = filters.includes(what);
      expect([what, mode.name, mode.asIptables]).toEqual([
        what,
        'nftables',
        !isLacking || undefined,
      ]);
      const feature = `iptables ${what} (ENOENT): load modules nft_compat and xt_`;
      const reason = isLacking ? expect.stringContaining(`${lacks} ${feature}`) : undefined;
      expect(notAsIptables).toEqual(reason);
    }
  });

  it('uses userspace on a kernel without netfilter, whatever is requested', async () => {
    for (const requested of ['', 'nftables', 'ipvs', 'iptables'] as const) {
      const { mode } = await selectMode(requested, withoutNetfilter(new FakeKernel()));
      expect(mode.name).toBe('userspace');
    }
  });

  it('uses userspace on a kernel that has netfilter, but not nf_tables', async () => {
    const kernel = new FakeKernel();
    // What begins a batch is refused (nfnetlink_rcv_batch).
    kernel.failNext({ code: 'EOPNOTSUPP', times: 2 });
    const { mode, fallbacks } = await selectMode('nftables', kernel);
    expect(mode.name).toBe('userspace');
    expect(fallbacks.map(({ reason }) => reason)).toEqual(
      fallbacks.map(
        () => `${lacks} nf_tables: load module nf_tables (kernel option CONFIG_NF_TABLES)`,
      ),
    );
  });
});

describe('a kernel that is short of memory', () => {
  it.each(['ENOMEM', 'ENOBUFS', 'EAGAIN'])(
    'for a moment (%s) does not change the mode',
    async (code) => {
      for (const mode of ['nftables', 'ipvs', 'iptables', 'userspace'] as const) {
        const kernel = new FakeKernel();
        kernel.failNext({ code, op: 0, times: 2 });
        expect(await selectMode(mode, kernel)).toMatchObject({
          mode: { name: mode },
          fallbacks: [],
        });
      }
    },
  );

  it('for longer does not change the mode either', async () => {
    const kernel = new FakeKernel();
    kernel.failNext({ code: 'ENOMEM', op: 0, times: Number.POSITIVE_INFINITY });
    expect(await selectMode('', kernel)).toMatchObject({
      mode: { name: 'nftables' },
      fallbacks: [],
    });
  });
});

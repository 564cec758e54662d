import { describe, expect, it } from 'vitest';
import { type CleanupOptions, cleanUp, listCleanup } from '../../../src/cli/cleanup.ts';
import { KernelError } from '../../../src/kernel/errors.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import { IPPROTO, NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { availableModes } from '../../../src/modes/index.ts';
import { batch } from '../../conformance/ops.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { withoutNetfilter } from '../../fake/without-netfilter.ts';
import { kubeProxy, merge, svc, write } from '../takeover/rules.ts';

interface Said {
  readonly options: CleanupOptions;
  readonly printed: string[];
  readonly complained: string[];
}

function saying(kernel: Kernel): Said {
  const printed: string[] = [];
  const complained: string[] = [];
  const options: CleanupOptions = {
    kernel,
    modes: availableModes(),
    print: (line) => printed.push(line),
    complain: (line) => complained.push(line),
  };
  return { options, printed, complained };
}

/** Ours, kube-proxy's in both forms, and a user's. */
function everything(): FakeKernel {
  const kernel = new FakeKernel();
  write(kernel, 'fairlead', { services: [''], 'cluster-1': [''] });
  write(kernel, 'fairlead', { services: [''] }, NFPROTO.IPv6);
  write(kernel, 'kube-proxy', { services: [''] }, NFPROTO.IPv6);
  write(kernel, 'nat', merge({ PREROUTING: ['mine'], mine: [''] }, kubeProxy));
  return kernel;
}

describe('--cleanup of connect-time translation', () => {
  /** The folder is not mounted here. */
  const connectTime = { directory: '/nowhere/fairlead', cgroup: undefined };

  it('lists and removes its programs, also if their folder is not visible', async () => {
    const kernel = new FakeKernel();
    kernel.bpf.strays.set(7, 'connect4');
    const { options, printed } = saying(kernel);
    await listCleanup({ ...options, connectTime });
    expect(printed[0]).toMatch(/^program connect4 \(id 7, link 7\): /);
    await cleanUp({ ...options, connectTime });
    expect(printed).toContain('removed program connect4 (id 7, link 7)');
    expect(kernel.bpf.strays.size).toBe(0);
  });

  it('fails if a program cannot be detached, but still removes the rules', async () => {
    const kernel = everything();
    kernel.bpf.strays.set(7, 'connect4');
    kernel.bpf.forbidden.detach = 'EINVAL';
    const { complained, options } = saying(kernel);
    await expect(cleanUp({ ...options, connectTime })).rejects.toThrow('tearing down');
    expect(complained.join()).toContain('connect4');
    expect(kernel.ruleset()).not.toContain('table ip fairlead');
  });

  it('fails if it is not known whose the attached programs are, but removes the rules', async () => {
    const kernel = everything();
    kernel.bpf.strays.set(0, '');
    const { complained, options, printed } = saying(kernel);
    const words = '1 programs are attached, and asking whose they are';
    await expect(listCleanup({ ...options, connectTime })).rejects.toThrow(words);
    expect(printed.join()).toContain('table ip fairlead: ');
    await expect(cleanUp({ ...options, connectTime })).rejects.toThrow('tearing down');
    expect(complained.join()).toContain(words);
    expect(kernel.ruleset()).not.toContain('table ip fairlead');
  });

  it('reports once what makes several steps fail', async () => {
    const words = { operation: 'kernel', subject: 'tables', code: 'EPERM', words: 'Not permitted' };
    const refused = async (): Promise<never> => {
      throw new KernelError(words);
    };
    const kernel: Kernel = { ...withoutNetfilter(new FakeKernel()), dump: refused, apply: refused };
    const { complained, options } = saying(kernel);
    await expect(cleanUp(options)).rejects.toThrow('tearing down');
    expect(complained).toEqual([expect.stringMatching(/^CAP_NET_ADMIN is needed: .*EPERM/)]);
  });
});

/** The leftovers of kube-proxy's ipvs mode in addition to rules, with a connection. */
function withIPVS(): FakeKernel {
  const kernel = new FakeKernel();
  const link = 'kube-ipvs0';
  const vip = Uint8Array.of(10, 96, 0, 1);
  const service = { family: 2, protocol: IPPROTO.TCP, address: vip, port: 443 };
  const settings = { scheduler: 'rr', flags: 0, timeoutSeconds: 0, prefixLength: 32 };
  const to = { destination: Uint8Array.of(10, 244, 0, 7), destinationPort: 8443 };
  const limits = { forwarding: 0, weight: 1, upperThreshold: 0, lowerThreshold: 0 };
  const bound = { family: 2, link, index: 0, prefixLength: 32, addresses: vip, flags: 0 };
  kernel.foreign(
    batch(
      { kind: 'linkAdd', link, type: 'dummy' },
      { kind: 'addressesAdd', ...bound },
      { kind: 'virtualServiceAdd', ...service, ...settings },
      { kind: 'destinationAdd', ...service, ...to, ...limits },
    ),
  );
  kernel.ipvs.traffic('TCP 10.96.0.1:443', '10.244.0.7:8443', { activeConnections: 3 });
  const set = { type: 'hash:ip', references: 0, ports: [] };
  kernel.ipsets.sets.set('KUBE-IPVS-IPS', set).set('KUBE-CLUSTER-IP', { ...set, references: 1 });
  return kernel;
}

const ours = "only Fairlead's nftables mode uses this name";

describe('the fast path', () => {
  it('is listed and removed, and a table of that name of others is not', async () => {
    const table = { family: 1, table: 'fairlead-fast-path' } as const;
    for (const comment of ['established connections to Services, by Fairlead', 'of others']) {
      const kernel = new FakeKernel();
      kernel.foreign(batch({ kind: 'tableAdd', ...table, comment }));
      const isOurs = comment !== 'of others';
      const { options, printed } = saying(kernel);
      await listCleanup(options);
      expect(printed).toEqual(
        isOurs ? ['table inet fairlead-fast-path: our fast path made it'] : ['nothing to remove'],
      );
      await cleanUp(options);
      const { records } = await kernel.dump({ kind: 'tablesDump', family: 1 });
      expect(records).toHaveLength(isOurs ? 0 : 1);
    }
  });
});

describe('--cleanup --dry-run', () => {
  it('lists each object with the reason why it is Fairlead’s or kube-proxy’s, and writes nothing', async () => {
    const kernel = everything();
    const before = kernel.ruleset();
    const { options, printed, complained } = saying(kernel);
    await listCleanup(options);
    expect(kernel.ruleset()).toBe(before);
    const handles = printed.map((line) => line.replace(/handle \d+/, 'handle N'));
    const chain = "only kube-proxy's iptables or ipvs mode has it";
    const rule = 'from where only kube-proxy does';
    expect(handles).toEqual([
      `table ip fairlead: ${ours} (2 chains, 0 sets and maps)`,
      `table ip6 fairlead: ${ours} (1 chains, 0 sets and maps)`,
      `rule ip nat PREROUTING handle N: jumps to KUBE-SERVICES ${rule}`,
      `rule ip nat OUTPUT handle N: jumps to KUBE-SERVICES ${rule}`,
      `rule ip nat POSTROUTING handle N: jumps to KUBE-POSTROUTING ${rule}`,
      `chain ip nat KUBE-SERVICES: ${chain}`,
      `chain ip nat KUBE-POSTROUTING: ${chain}`,
      `chain ip nat KUBE-MARK-MASQ: ${chain}`,
      `chain ip nat ${svc}: ${chain}`,
      `chain ip nat KUBE-SEP-SXIVWICOYRO3J4NJ: ${chain}`,
      "table ip6 kube-proxy: only kube-proxy's nftables mode uses this name",
    ]);
    expect(complained).toEqual([]);
  });

  it('lists each chain of our iptables mode once, and none as kube-proxy’s', async () => {
    const kernel = new FakeKernel();
    const ours = { 'KUBE-POSTROUTING': ['KUBE-HAIRPIN'], 'KUBE-HAIRPIN': [''] };
    const ipvs = { 'KUBE-LOAD-BALANCER': [''] };
    write(kernel, 'nat', merge(kubeProxy, ours, ipvs));
    const { options, printed } = saying(kernel);
    await listCleanup(options);
    expect(printed).toEqual([
      "6 chains KUBE-* of family ip: only Fairlead's iptables mode has KUBE-HAIRPIN among them",
      "chain ip nat KUBE-LOAD-BALANCER: only kube-proxy's iptables or ipvs mode has it",
    ]);
  });

  it('reports what is kept', async () => {
    const kernel = new FakeKernel();
    write(kernel, 'nat', merge(kubeProxy, { mine: [svc] }));
    const { options, printed, complained } = saying(kernel);
    await listCleanup(options);
    expect(printed).toContain(`(stays: chain ip nat ${svc}: chain mine refers to it)`);
    expect(complained).toEqual([]);
  });

  it('lists the contents of the tables of iptables-legacy, which have no handles', async () => {
    const kernel = new FakeKernel();
    const mine = { 'KUBE-MARK-MASQ': [''], mine: ['KUBE-MARK-MASQ'] };
    kernel.legacy.write('IPv6', 'nat', { OUTPUT: ['KUBE-SERVICES'], 'KUBE-SERVICES': [], ...mine });
    const { options, printed } = saying(kernel);
    await listCleanup(options);
    expect(printed).toEqual([
      'rule ip6tables-legacy nat OUTPUT: jumps to KUBE-SERVICES from where only kube-proxy does',
      "chain ip6tables-legacy nat KUBE-SERVICES: only kube-proxy's iptables or ipvs mode has it",
      '(stays: chain ip6tables-legacy nat KUBE-MARK-MASQ: chain mine refers to it)',
    ]);
    expect(Object.keys(kernel.legacy.rules('IPv6', 'nat'))).toContain('KUBE-SERVICES');
  });

  it("lists the objects of kube-proxy's ipvs mode", async () => {
    const kernel = withIPVS();
    const { options, printed } = saying(kernel);
    await listCleanup(options);
    expect(printed).toEqual([
      'virtual service TCP 10.96.0.1:443: ' +
        "at an address of kube-ipvs0, or a node port of kube-proxy's sets",
      "ipset KUBE-IPVS-IPS: only kube-proxy's ipvs mode uses this name",
      '(stays: ipset KUBE-CLUSTER-IP: rules refer to it)',
      "interface kube-ipvs0: only kube-proxy's ipvs mode uses this name",
    ]);
    expect(kernel.ipvs.text()).not.toBe('');
  });

  it('says that there is nothing to remove', async () => {
    const { options, printed } = saying(new FakeKernel());
    await listCleanup(options);
    expect(printed).toEqual(['nothing to remove']);
  });
});

describe('--cleanup', () => {
  it("removes rules of Fairlead and kube-proxy, and keeps a user's", async () => {
    const kernel = everything();
    const { options, printed } = saying(kernel);
    await cleanUp(options);
    const mine = new FakeKernel();
    const builtIn = { PREROUTING: ['mine'], OUTPUT: [], POSTROUTING: [] };
    write(mine, 'nat', merge({ PREROUTING: [], mine: [''] }, builtIn));
    expect(kernel.ruleset()).toBe(mine.ruleset());
    expect(printed.map((line) => line.replace(/handle \d+/, 'handle N'))).toEqual([
      'removed table ip fairlead',
      'removed table ip6 fairlead',
      'removed rule ip nat PREROUTING handle N',
      'removed rule ip nat OUTPUT handle N',
      'removed rule ip nat POSTROUTING handle N',
      'removed chain ip nat KUBE-SERVICES',
      'removed chain ip nat KUBE-POSTROUTING',
      'removed chain ip nat KUBE-MARK-MASQ',
      `removed chain ip nat ${svc}`,
      'removed chain ip nat KUBE-SEP-SXIVWICOYRO3J4NJ',
      'removed table ip6 kube-proxy',
    ]);
    const again = saying(kernel);
    await cleanUp(again.options);
    expect(again.printed).toEqual([]);
  });

  it("removes the objects of kube-proxy's ipvs mode, even with connections", async () => {
    const kernel = withIPVS();
    const { options, printed } = saying(kernel);
    await cleanUp(options);
    expect(kernel.ipvs.text()).toBe('');
    expect(kernel.links.texts('kube-ipvs0')).toBeUndefined();
    expect(printed).toEqual([
      'removed virtual service TCP 10.96.0.1:443',
      'removed ipset KUBE-IPVS-IPS',
      'left ipset KUBE-CLUSTER-IP: rules refer to it',
      'removed interface kube-ipvs0',
    ]);
    const again = saying(kernel);
    await cleanUp(again.options);
    expect(again.printed).toEqual([]);
  });

  it("removes kube-proxy's rules from the tables of iptables-legacy, and waits for its lock", async () => {
    const kernel = new FakeKernel();
    kernel.legacy.write('IPv4', 'nat', merge(kubeProxy, { mine: [''] }));
    // By another program until the first attempt.
    const locks = [true];
    Object.defineProperty(kernel.legacy, 'isLocked', { get: () => locks.pop() ?? false });
    const { options, printed } = saying(kernel);
    await cleanUp(options);
    const left = { PREROUTING: [], OUTPUT: [], POSTROUTING: [], mine: [''] };
    expect(kernel.legacy.rules('IPv4', 'nat')).toEqual(left);
    expect(printed).toHaveLength(5 + 3);
    expect(printed).toContain(`removed chain iptables-legacy nat ${svc}`);
  });

  it('names the first twenty objects of a kind that it removes, and counts the others', async () => {
    const letters = [...'ABCDEFGHIJKLMNOPQRSTUVW'];
    const own = Object.fromEntries(letters.map((one) => [`KUBE-SVC-${one.repeat(16)}`, ['']]));
    const kernel = new FakeKernel();
    write(kernel, 'nat', merge(kubeProxy, own));
    const { options, printed } = saying(kernel);
    await cleanUp(options);
    expect(printed).toHaveLength(20 + 1);
    expect(printed.at(-1)).toBe(`removed ${5 + 3 + letters.length - 20} more`);
  });

  it("removes kube-proxy's named counters, and lists them with --dry-run", async () => {
    const kernel = new FakeKernel();
    const name = 'ct_state_invalid_dropped_pkts';
    kernel.accts.packets.set(name, 3).set('mine', 1);
    const listed = saying(kernel);
    await listCleanup(listed.options);
    const because = "only kube-proxy's iptables mode, and ours, uses this name";
    expect(listed.printed).toEqual([`counter ${name}: ${because}`]);
    const { options, printed } = saying(kernel);
    await cleanUp(options);
    expect(printed).toEqual([`removed counter ${name}`]);
    expect([...kernel.accts.packets.keys()]).toEqual(['mine']);
  });

  it('continues after a failure, and fails at the end', async () => {
    const kernel = everything();
    kernel.failNext({ code: 'EBUSY', op: 0 });
    const { options, complained } = saying(kernel);
    await expect(cleanUp(options)).rejects.toThrow('encountered an error while tearing down rules');
    expect(complained).toEqual([expect.stringContaining('(EBUSY)')]);
    expect(kernel.ruleset()).toContain('table ip fairlead');
    expect(kernel.ruleset()).not.toContain('KUBE-');
  });

  it('reads again if another program writes in the meantime', async () => {
    const kernel = new FakeKernel();
    write(kernel, 'kube-proxy', { services: [''] });
    const { options, printed } = saying(kernel);
    const found = kernel.dump.bind(kernel);
    let disturbed = false;
    kernel.dump = async (request) => {
      const result = await found(request);
      if (disturbed || request.kind !== 'chainsDump' || request.table !== '') return result;
      disturbed = true;
      return { ...result, consistent: false };
    };
    await cleanUp(options);
    expect(disturbed).toBe(true);
    expect(printed).toEqual(['removed table ip kube-proxy']);
  });
});

describe('--cleanup on a kernel without netfilter', () => {
  it('removes only the link of mode userspace', async () => {
    const kernel = new FakeKernel();
    kernel.links.run({ kind: 'linkAdd', link: 'fairlead0', type: 'dummy' });
    const { options, printed, complained } = saying(withoutNetfilter(kernel));
    await listCleanup(options);
    await cleanUp(options);
    expect(printed).toEqual([
      'interface fairlead0: only Fairlead uses this name; it has 0 addresses of Services',
      'removed interface fairlead0',
    ]);
    expect(complained).toEqual([]);
    expect(kernel.links.texts('fairlead0')).toBeUndefined();
  });
});

/**
 * `fairlead preflight` on a node with objects of other programs: it reports them, and changes
 * nothing.
 */
import { expect, test } from 'vitest';
import { isKernelError } from '../../src/kernel/errors.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import {
  addresses,
  mixedRules,
  nftablesRules,
  restoreText,
} from '../conformance/kube-proxy-rules.ts';
import { createKernel, createNamespace, type Namespace } from '../conformance/namespace.ts';
import { Program } from './program.ts';

interface Node {
  readonly kernel: Kernel;
  readonly namespace: Namespace;
}

/** None where the kernel has no ipset. */
async function readSets(kernel: Kernel) {
  try {
    const { records } = await kernel.dump({ kind: 'ipsetsDump' });
    return records.filter((one) => one.kind === 'ipset');
  } catch (error) {
    if (isKernelError(error, 'EINVAL')) return [];
    throw error;
  }
}

/** Everything that a look might have changed. */
async function everything({ kernel, namespace }: Node): Promise<string> {
  const said = [
    await namespace.run('nft', ['list', 'ruleset']),
    JSON.stringify((await readSets(kernel)).map(({ set }) => set)),
    await namespace.run('ip', ['address']),
    await namespace.run('sysctl', ['-a', '-r', '^net[.]']),
  ];
  // These count packets and time.
  return said.join('\n').replace(/^net\..*(_count|tcp_fastopen_key|icmp_msgs).*$/gm, '');
}

interface Told {
  readonly result: string;
  readonly findings: readonly { check: string; level: string; text: string; advice: string }[];
}

test('preflight reports other programs and problems, and writes nothing', async () => {
  const { kernel, namespace } = await createKernel();
  await namespace.run('ip', ['link', 'set', 'lo', 'up']);
  const rules = restoreText(mixedRules(addresses.IPv4, 'DROP'), ['kube-proxy', 'others']);
  await namespace.run('iptables-nft-restore', [], rules);
  await namespace.run('nft', ['-f', '-'], nftablesRules('ip6', addresses.IPv6));
  await namespace.run('nft', ['-f', '-'], 'table inet firewalld { chain filter_FORWARD { }; }');
  const before = await everything({ kernel, namespace });

  const program = new Program(namespace, ['preflight', '-o', 'json']);
  expect(await program.exitCode).toBe(0);
  const told = JSON.parse(program.stdout) as Told;
  expect(await everything({ kernel, namespace })).toBe(before);
  expect(before).toContain('KUBE-SVC-XPGD46QRK7WJZT7O');

  const lines = told.findings.map(({ level, check, text }) => `${level} ${check}: ${text}`);
  expect(told.result).toBe('warning');
  expect(lines).toEqual(
    expect.arrayContaining([
      'ok mode nftables: the kernel can do it',
      'ok mode to run: nftables: the best that this kernel can do',
      'ok another Fairlead: none runs in this network namespace',
      expect.stringMatching(/^ok kube-proxy in ip: \d+ chains, \d+ jumps: taken over/),
      'ok kube-proxy in ip6: table kube-proxy: taken over once our own rules are verified',
      expect.stringMatching(/^ok mode empty: packets to 127.0.0.1:NODEPORT: are answered/),
      'warning agent firewalld: is or was here: firewalld',
      'ok agent Calico in iptables: is or was here: cali-PREROUTING',
      'warning forwarded packets: filter FORWARD drops by default',
      'warning net.ipv4.ip_forward: is 0: the node forwards no packets of pods to endpoints',
    ]),
  );
  // It is one of the rules that an empty mode keeps.
  expect(lines.filter((line) => line.includes('KUBE-FORWARD:'))).toEqual([]);
  const advised = told.findings.filter(({ level }) => level !== 'ok');
  expect(advised.filter(({ advice }) => advice === '')).toEqual([]);
});

test.each([
  ['nftables', ['FORWARD', 'INPUT']],
  ['iptables', ['FORWARD']],
  ['', ['FORWARD']],
])('preflight names what drops packets, mode "%s"', async (mode, chains) => {
  const { namespace } = await createKernel();
  const rules = ':INPUT DROP\n:FORWARD DROP\n:OUTPUT ACCEPT\n:KUBE-FORWARD -\n:KUBE-NODEPORTS -';
  await namespace.run('iptables-nft-restore', [], `*filter\n${rules}\nCOMMIT\n`);
  const program = new Program(namespace, ['preflight', '-o', 'json', `--proxy-mode=${mode}`]);
  await program.exitCode;
  const { findings } = JSON.parse(program.stdout) as Told;
  const dropping = findings.filter(({ text }) => text.endsWith('drops by default'));
  expect(dropping.map(({ text }) => text.split(' ')[1])).toEqual(chains);
  const kept = findings.filter(({ text }) => text.startsWith('chain filter KUBE-'));
  expect(kept).toHaveLength(mode === 'nftables' ? 2 : 0);
});

test.each([
  ['table ip calico { }', 'nftables', 'ok', 'Calico in nftables'],
  ['table ip calico { }', '', 'warning', 'Calico in nftables'],
  ['table ip filter { chain cali-INPUT { }; }', 'nftables', 'ok', 'Calico in iptables'],
  ['table ip filter { chain cali-INPUT { }; }', '', 'ok', 'Calico in iptables'],
])('with kube-proxy in nftables and %s, mode "%s" is %s', async (rules, mode, level, agent) => {
  const { namespace } = await createKernel();
  const proxy = 'table ip kube-proxy { chain services { }; }';
  await namespace.run('nft', ['-f', '-'], `${proxy}\n${rules}`);
  const program = new Program(namespace, ['preflight', '-o', 'json', `--proxy-mode=${mode}`]);
  await program.exitCode;
  const { findings } = JSON.parse(program.stdout) as Told;
  const found = findings.filter(({ check }) => check === `agent ${agent}`);
  expect(found.map((one) => one.level)).toEqual([level]);
  expect(/moves its rules to iptables/.test(found[0]!.advice)).toBe(level === 'warning');
});

test('preflight warns that Calico will follow a mode nftables that kube-proxy had not', async () => {
  const { namespace } = await createKernel();
  await namespace.run('nft', ['-f', '-'], 'table ip filter { chain cali-INPUT { }; }');
  const program = new Program(namespace, ['preflight', '-o', 'json', '--proxy-mode=nftables']);
  await program.exitCode;
  const { findings } = JSON.parse(program.stdout) as Told;
  expect(findings.find(({ check }) => check === 'agent Calico in iptables')).toMatchObject({
    level: 'warning',
    advice: expect.stringContaining('moves its rules to nftables'),
  });
});

test('preflight without CAP_NET_ADMIN reports a problem in each format', async () => {
  const namespace = await createNamespace();
  const within = ['setpriv', '--bounding-set=-net_admin', '--inh-caps=-net_admin'];
  const program = new Program(namespace, ['preflight'], { within });
  expect(await program.exitCode).toBe(1);
  expect(program.stdout).toMatch(/^problem +CAP_NET_ADMIN +this process lacks it → run as root/m);
  expect(program.stdout).toMatch(/^problem +modes +the kernel does not answer: /m);

  const json = new Program(namespace, ['preflight', '-ojson', '--proxy-mode=iptables']);
  expect(await json.exitCode).toBe(0);
  expect(json.stdout).toContain('"text": "iptables: as configured"');
});

test('preflight with invalid arguments exits with 2', async () => {
  const namespace = await createNamespace();
  for (const [args, words] of [
    [['-o', 'xml'], 'Error: invalid argument "xml" for "-o, --output" flag: must be one of'],
    [['--cleanup'], 'Error: --cleanup is for a start, not for preflight'],
  ] as const) {
    const program = new Program(namespace, ['preflight', ...args]);
    expect(await program.exitCode, args.join(' ')).toBe(2);
    expect(program.words).toContain(words);
  }
});

test.each([
  ['iptables', ['mode iptables']],
  ['ipvs', ['mode ipvs', 'ipvs.scheduler', 'ipvs.strictARP']],
])('preflight gives advice on mode %s without reporting a problem', async (mode, about) => {
  const namespace = await createNamespace();
  await namespace.run('ip', ['link', 'set', 'lo', 'up']);
  const flags = [`--proxy-mode=${mode}`, '--ipvs-scheduler=lc', '--ipvs-strict-arp'];
  const program = new Program(namespace, ['preflight', '-o', 'json', ...flags]);
  expect(await program.exitCode).toBe(0);
  const { findings } = JSON.parse(program.stdout) as Told;
  const isAdvice =
    /is asked for; from Kubernetes 1\.37 on|stays in Fairlead|scheduler that|sysctls are/;
  const advice = findings.filter(({ text }) => isAdvice.test(text));
  expect(advice.map(({ level, check }) => `${level} ${check}`)).toEqual(
    about.map((check) => `ok ${check}`),
  );
});

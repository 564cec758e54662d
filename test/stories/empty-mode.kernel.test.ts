/** What packets meet with an empty mode, which nftables serves: that of kube-proxy's mode iptables. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Firewall, firewallRules } from '../conformance/firewall-rules.ts';
import { mixedRules, restoreText } from '../conformance/kube-proxy-rules.ts';
import { clusterIp, FAMILIES, type Family, NODE_IP, POD_A_IP } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { BASELINE, service, settings, slices } from '../lab/objects.ts';
import type { Attempt } from '../lab/outcome.ts';
import { answerMs, paced } from '../lab/pace.ts';
import { runStory } from '../lab/run-story.ts';
import { serverOf, whoAnswers } from '../lab/who-answers.ts';
import { externalLocal, lb, NODE_PORT, reachable, vip } from './common.ts';
import { kubeProxyAddresses, untilTold } from './downloads.ts';
import { fairlead, type LogLine, type SwitchableProxy } from './fairlead-proxy.ts';
import { areAllAsked, chosenStories, firstStories } from './index.ts';
import { iptablesStory } from './iptables-story.ts';

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

let running: SwitchableProxy | undefined;
afterEach(async () => {
  await running?.stop();
  running = undefined;
  await fairlead('').cleanup(lab.node);
  await lab.reset();
});

const healthPort = 32_000;
const localPort = NODE_PORT + 1;

/** `web` with policy Cluster, and `local` with policy Local and a health-check node port. */
const both = [
  ...BASELINE,
  service('web', { clusterIp: vip, ports: [{ port: 80, nodePort: NODE_PORT }] }),
  ...slices('web', ['pod-a']),
  service('local', {
    clusterIp: clusterIp(11),
    ports: [{ port: 80, nodePort: localPort }],
    vips: [lb],
    spec: { ...externalLocal, healthCheckNodePort: healthPort },
  }),
  ...slices('local', ['pod-a']),
];

async function listen(): Promise<void> {
  for (const family of FAMILIES) {
    await lab.actors['pod-a'].listen('TCP', POD_A_IP[family], 8080);
    // In place of the server of the process, which is not in the node's namespace here.
    await lab.actors.node.listen('TCP', NODE_IP[family], healthPort);
  }
}

async function load(firewall: Firewall): Promise<void> {
  for (const family of FAMILIES) {
    const rules = firewallRules(firewall, family);
    if (rules !== undefined) await lab.node.run(rules.program.split(' '), rules.text);
  }
}

/**
 * What a client outside gets at node ports of both policies, and where it asks for health. Only
 * where nothing is to come, it does not wait for long.
 */
async function fromOutside(family: Family, expected: string): Promise<string> {
  const ask = async (port: number, timeoutMs = answerMs) => {
    const to = { address: NODE_IP[family], port };
    return (await whoAnswers(lab.actors.client, to, { connections: 1, timeoutMs })).join();
  };
  const local = await ask(localPort, expected.includes('timeout') ? paced(1000) : answerMs);
  return `${await ask(NODE_PORT)}, ${local}, ${await ask(healthPort)}`;
}

/** An endpoint that reaches itself, which is forwarded too. */
function byItself(family: Family): Promise<string[]> {
  const to = { address: vip[family], port: 80 };
  return whoAnswers(lab.actors['pod-a'], to, { connections: 1, timeoutMs: answerMs });
}

const outcomes = {
  none: 'pod-a, pod-a, node',
  ufw: 'pod-a, timeout, node',
  Docker: 'pod-a, timeout, node',
  // Its own table decides, as it does over kube-proxy's rules.
  firewalld: 'pod-a, pod-a, unreachable',
} as const satisfies Record<Firewall, string>;

const firewalls = Object.entries(outcomes) as [Firewall, string][];

describe.each(['', 'iptables'] as const)('past a firewall of the host, mode %j', (mode) => {
  test.each(firewalls)('%s that was there before', async (firewall, expected) => {
    await listen();
    await load(firewall);
    running = await fairlead(mode).start(lab.node, settings, both);
    for (const family of FAMILIES) expect(await fromOutside(family, expected)).toBe(expected);
    // Mode iptables does not know such a connection before it is masqueraded.
    if (mode === 'iptables') return;
    for (const family of FAMILIES) expect(await byItself(family)).toEqual(['pod-a']);
  });

  test.each(firewalls)('%s that comes later', async (firewall, expected) => {
    await listen();
    running = await fairlead(mode).start(lab.node, settings, both);
    for (const family of FAMILIES)
      expect(await fromOutside(family, outcomes.none)).toBe(outcomes.none);
    await load(firewall);
    for (const family of FAMILIES) expect(await fromOutside(family, expected)).toBe(expected);
  });
});

test('a firewall that replaces all rules of table filter has them again soon', async () => {
  await listen();
  const lines: LogLine[] = [];
  running = await fairlead('', { log: (line) => lines.push(line) }).start(lab.node, settings, both);
  const flushing = firewallRules('ufw', 'IPv4')!;
  await lab.node.run(['iptables-nft-restore'], flushing.text);
  await untilTold(lines, 'Repaired rules that another program changed', 1);
  expect(await fromOutside('IPv4', outcomes.ufw)).toBe(outcomes.ufw);
});

/** kube-proxy's rules, among which those for the health of `local`. */
async function loadKubeProxy(): Promise<void> {
  for (const family of FAMILIES) {
    const program = { IPv4: 'iptables-nft-restore', IPv6: 'ip6tables-nft-restore' }[family];
    const endpoints = [POD_A_IP[family], POD_A_IP[family]] as const;
    const rules = mixedRules({ ...kubeProxyAddresses(family), endpoints }, 'DROP');
    await lab.node.run([program], restoreText(rules, ['kube-proxy', 'others']));
    const health =
      '-A KUBE-NODEPORTS -p tcp -m comment --comment "default/local health check node port" ' +
      `-m tcp --dport ${healthPort} -j ACCEPT`;
    await lab.node.run([program, '--noflush'], `*filter\n${health}\nCOMMIT\n`);
  }
}

test.each(['ufw', 'Docker'] as const)(
  'no packet is lost at the takeover under %s',
  async (firewall) => {
    await listen();
    await loadKubeProxy();
    await load(firewall);
    const ask = async (): Promise<string[]> => {
      const targets = FAMILIES.flatMap((family) => [
        { address: vip[family], port: 80 },
        { address: NODE_IP[family], port: healthPort },
      ]);
      const found = targets.map((to) => whoAnswers(lab.actors.client, to, { connections: 1 }));
      return (await Promise.all(found)).flat();
    };
    const served = ['pod-a', 'node', 'pod-a', 'node'];
    expect(await ask()).toEqual(served);
    let familiesTaken = 0;
    const log = ({ msg }: LogLine): void => {
      if (msg === 'Took over from kube-proxy; removed its rules') familiesTaken += 1;
    };
    const started = fairlead('', { log }).start(lab.node, settings, both);
    // However this test ends, what was started is stopped.
    const isRunning = started.then((one) => {
      running = one;
    });
    const failed = isRunning.then(() => new Promise<never>(() => {}));
    while (familiesTaken < 2) expect(await Promise.race([failed, ask()])).toEqual(served);
    await isRunning;
    expect(await ask()).toEqual(served);
    const left = await lab.node.run(['iptables-nft-save']);
    expect(left).not.toContain('KUBE-SERVICES');
    expect(left).toContain('KUBE-NODEPORTS');
    await running!.switchTo('iptables');
    expect(await ask()).toEqual(served);
    await running!.switchTo('');
    expect(await ask()).toEqual(served);
  },
);

describe('packets of no connection', () => {
  const flow = 'download';
  const direct: Attempt = {
    protocol: 'TCP',
    to: { address: POD_A_IP.IPv4, port: 8080 },
    timeoutMs: answerMs,
  };

  /** How a download ends whose packets connection tracking calls INVALID from some moment on. */
  async function resumed(mode: '' | 'iptables' | 'nftables'): Promise<string> {
    await listen();
    running = await fairlead(mode).start(lab.node, settings, both);
    await lab.node.run(['sysctl', '-qw', 'net.netfilter.nf_conntrack_tcp_loose=0']);
    await lab.actors.client.open(flow, direct);
    await lab.actors.node.flushConntrack();
    const outcome = await lab.actors.client.resume(
      flow,
      mode === 'nftables' ? answerMs : paced(1500),
    );
    await lab.node.run(['sysctl', '-qw', 'net.netfilter.nf_conntrack_tcp_loose=1']);
    return serverOf(outcome);
  }

  test.each([
    ['', 'timeout'],
    ['iptables', 'timeout'],
    ['nftables', 'pod-a'],
  ] as const)('are dropped when they are forwarded, mode %j: %s', async (mode, expected) => {
    expect(await resumed(mode)).toBe(expected);
  });
});

describe('loopback addresses', () => {
  const routeLocalnet = (value: 0 | 1) =>
    ['sysctl', '-qw', `net.ipv4.conf.all.route_localnet=${value}`] as const;
  const localhost = (port: number) => ({ address: '127.0.0.1', port });

  beforeAll(() => lab.node.run(routeLocalnet(1)));
  afterAll(() => lab.node.run(routeLocalnet(0)));

  test.each([
    [[], 'pod-a'],
    [['127.0.0.0/8'], 'pod-a'],
    [['192.168.0.0/16'], 'reset'],
  ] as const)('have node ports of TCP and UDP, nodePortAddresses %j: %s', async (listed, by) => {
    await listen();
    await lab.actors['pod-a'].listen('UDP', POD_A_IP.IPv4, 8080);
    const ports = (['TCP', 'UDP'] as const).map((protocol) => {
      return { name: protocol, protocol, port: 80, nodePort: NODE_PORT };
    });
    const slicePorts = ports.map(({ name, protocol }) => ({ name, protocol, port: 8080 }));
    const its = { ...settings, localhostNodePorts: true, nodePortAddresses: listed };
    running = await fairlead('').start(lab.node, its, [
      ...BASELINE,
      service('web', { clusterIp: vip, ports }),
      ...slices('web', ['pod-a'], { ports: slicePorts }),
    ]);
    const { node } = lab.actors;
    const asked = { to: localhost(NODE_PORT), timeoutMs: answerMs };
    const tally = await node.connect({ protocol: 'TCP', ...asked }, 4);
    expect(tally.map(({ outcome }) => serverOf(outcome))).toEqual([by]);
    if (by !== 'pod-a') return;
    const datagrams = await node.connect({ protocol: 'UDP', ...asked }, 4);
    expect(datagrams.map(({ outcome }) => serverOf(outcome))).toEqual([by]);
  });

  test.each([
    ['', 'timeout'],
    // The control: there it is the kubelet's rule that keeps others out.
    ['nftables', 'node'],
  ] as const)('cannot be reached by another machine, mode %j: %s', async (mode, expected) => {
    const port = 7777;
    const address = NODE_IP.IPv4;
    await lab.actors.node.listen('TCP', '127.0.0.1', port);
    const its = { ...settings, localhostNodePorts: true };
    running = await fairlead(mode).start(lab.node, its, both);
    // What it sends to the node's address has a loopback address on the wire.
    const hook = (name: string) => `type filter hook ${name} device "eth0" priority 0`;
    const forging = `table netdev forging {
      chain out { ${hook('egress')}
        ip daddr ${address} tcp dport ${port} ip daddr set 127.0.0.1
      }
      chain in { ${hook('ingress')}
        ip saddr 127.0.0.1 tcp sport ${port} ip saddr set ${address}
      }
    }`;
    const { node2 } = lab.actors;
    await node2.run(['nft', '-f', '-'], forging);
    const asking = { connections: 1, timeoutMs: expected === 'node' ? answerMs : paced(1000) };
    const found = await whoAnswers(node2, { address, port }, asking);
    await node2.run(['nft', 'delete', 'table', 'netdev', 'forging']);
    expect(found).toEqual([expected]);
  });
});

test('what has no endpoints or no Service is left to the routes where mode iptables leaves it', async () => {
  await listen();
  const objects = [...BASELINE, reachable()];
  const { client, node } = lab.actors;
  const seen = async (mode: '' | 'iptables' | 'nftables') => {
    const proxy = fairlead(mode);
    running = await proxy.start(lab.node, settings, objects);
    const ask = async (actor: typeof node, address: string, port: number) =>
      (await whoAnswers(actor, { address, port }, { connections: 1, timeoutMs: answerMs })).join();
    const found = [
      await ask(node, lb.IPv4, 80),
      await ask(client, lb.IPv4, 80),
      await ask(node, vip.IPv4, 80),
      await ask(client, vip.IPv4, 99),
      await ask(client, clusterIp(99).IPv4, 80),
    ];
    await running.stop();
    running = undefined;
    await proxy.cleanup(lab.node);
    return found;
  };
  const iptables = await seen('iptables');
  expect(await seen('')).toEqual(iptables);
  expect(await seen('nftables')).not.toEqual(iptables);
});

test('another program may send what comes from outside to a loopback address', async () => {
  const port = 7777;
  await lab.actors.node.listen('TCP', '127.0.0.1', port);
  await lab.node.run(['sysctl', '-qw', 'net.ipv4.conf.all.route_localnet=1']);
  running = await fairlead('').start(lab.node, { ...settings, localhostNodePorts: true }, both);
  const way = ['-p', 'tcp', '--dport', '7778', '-j', 'DNAT', '--to', `127.0.0.1:${port}`];
  await lab.node.run(['iptables-nft', '-t', 'nat', '-A', 'PREROUTING', ...way]);
  const to = { address: NODE_IP.IPv4, port: 7778 };
  expect(await whoAnswers(lab.actors.client, to, { connections: 1 })).toEqual(['node']);
  await lab.node.run(['sysctl', '-qw', 'net.ipv4.conf.all.route_localnet=0']);
});

// The others meet what mode nftables does with them, which `worlds.test.ts` compares for random
// clusters: they take a minute, and run with `FAIRLEAD_STORIES=all` (scripts/nightly).
for (const story of chosenStories('all')) {
  const adapted = iptablesStory(story);
  const isOther = adapted.steps.some((step, i) => step !== story.steps[i]);
  const isChosen = isOther || areAllAsked || firstStories.includes(story);
  if (!isChosen || story.differsIn?.iptables !== undefined) continue;
  test(story.name, () => runStory(lab, fairlead(''), adapted));
}

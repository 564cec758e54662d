/** What a real kernel shows of a node and its connections is named by `fairlead problems`. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ProblemList } from '../../src/ask/problems.ts';
import { clusterIp, NODE_IP, NODE_SECOND_IP, POD_A_IP, POD_B_IP } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { DEFAULT_CLUSTER_CIDR, service, slice } from '../lab/objects.ts';
import { answerMs, paced } from '../lab/pace.ts';
import { buildRoughKernel } from './native/build.ts';
import { inForce, listens, Place, Program, temporaryDirectory, until } from './program.ts';

let lab: Lab;

beforeAll(async () => {
  lab = await createLab();
  await lab.actors['pod-a'].listen('TCP', POD_A_IP.IPv4, 8080);
});

afterAll(() => lab.close());

/** A Service of IPv4 with one endpoint. */
function one(
  number: number,
  name: string,
  endpoint: Parameters<typeof slice>[2][number],
  nodePort?: number,
) {
  const ports = [{ port: 80, ...(nodePort === undefined ? {} : { nodePort }) }];
  const ips = { IPv4: clusterIp(number).IPv4 };
  return [service(name, { clusterIp: ips, ports }), slice('IPv4', name, [endpoint])];
}

const [taken, hosted] = [30_080, 30_081];
const silent = clusterIp(50).IPv4;
/** Ways by machines that are not there. */
const hopless = [
  ['IPv4', 'hopless', '10.244.3.7', '10.244.3.0/24', '192.168.10.99'],
  ['IPv6', 'hopless6', 'fd00:244:3::7', 'fd00:244:3::/64', 'fd00:10::99'],
] as const;
const objects = [
  ...one(50, 'silent', { at: { IPv4: '10.244.2.77' } }),
  ...one(51, 'taken', 'pod-a', taken),
  ...one(52, 'hosted', 'pod-a', hosted),
  ...one(53, 'refusing', 'pod-b'),
  ...hopless.flatMap(([family, name, at]) => [
    service(name, { clusterIp: { [family]: clusterIp(54)[family] } }),
    slice(family, name, [{ at: { [family]: at } }]),
  ]),
];

const run = (program: string, args: readonly string[], input?: string) =>
  lab.node.run([program, ...args], input);

function onNode(): Place {
  const { namespace: name, namespacePath: path } = lab.node;
  return new Place({ name, path, run });
}

function asking(place: Place) {
  const said = async (): Promise<string[]> => {
    const program = new Program(place.namespace, ['problems', '-o', 'json']);
    await program.exitCode;
    const { items, proxy, remarks } = JSON.parse(program.stdout) as ProblemList;
    const ofServices = items.flatMap((item) =>
      item.problems.map(({ reason, text }) => `${item.name} ${reason}: ${text}`),
    );
    return [...proxy, ...remarks, ...ofServices];
  };
  let last: string[] = [];
  const isSaid = async (expected: RegExp, before?: () => Promise<unknown>): Promise<void> => {
    const isThere = async () => {
      await before?.();
      last = await said();
      return last.some((text) => expected.test(text));
    };
    await until(isThere, `${expected}`).catch((error: Error) => {
      throw new Error(`${error.message}; it says ${JSON.stringify(last)}`);
    });
  };
  const isQuiet = () => until(async () => (await said()).length === 0, 'nothing is said');
  return { isQuiet, isSaid };
}

test('problems names a wrong clusterCIDR, and a kernel that refuses, as packets meet them', async () => {
  const place = onNode();
  place.configure({ clusterCIDR: '10.200.0.0/16', detectLocalMode: 'ClusterCIDR' });
  place.apply(['pod-a']);
  const directory = temporaryDirectory();
  const [file, library] = [join(directory, 'rough'), buildRoughKernel(directory)];
  const within = ['env', `LD_PRELOAD=${library}`, `ROUGH_KERNEL=${file}`];
  await place.startUnder({ within }).logged(inForce, 2);
  await listens(place.namespace, 10_249);
  const { isSaid } = asking(place);
  const to = { address: clusterIp(10).IPv4, port: 80 };
  const met = () => lab.actors['pod-b'].connect({ protocol: 'TCP', to, timeoutMs: answerMs }, 4);
  // The node's address on the bridge.
  const masqueraded = { kind: 'answered', by: 'pod-a', source: '10.244.1.1' };
  await isSaid(/^This node: clusterCIDR .*10\.200\.0\.0\/16 does not contain 10\.244\.1\.0\/24/);
  expect(await met()).toMatchObject([{ count: 4, outcome: masqueraded }]);
  writeFileSync(file, 'unprivileged');
  place.apply(['pod-c']);
  await isSaid(/^The kernel refuses what is written for IPv4: .*EPERM/);
  expect(await met()).toMatchObject([{ count: 4, outcome: masqueraded }]);
}, 300_000);

test('problems names what the machine, its sockets and its connections do, until it is over', async () => {
  const sysctl = (...settings: readonly string[]) => run('sysctl', ['-qw', ...settings]);
  const place = onNode();
  place.configure({ clusterCIDR: DEFAULT_CLUSTER_CIDR, detectLocalMode: 'ClusterCIDR' });
  place.apply(['pod-a'], ...objects);
  await place.start().logged(inForce, 2);
  await listens(place.namespace, 10_249);
  const { isQuiet, isSaid } = asking(place);

  // Its pods have such routes.
  await isSaid(/^This node: net\.bridge\.bridge-nf-call-iptables is 0: .* \(cni0\)/);
  const filters = ['iptables', 'ip6tables'].map((one) => `net.bridge.bridge-nf-call-${one}`);
  await sysctl(...filters.map((one) => `${one}=1`));
  await isSaid(/^This node: bridge cni0 .*\(hairpin_mode is 0: veth-a, veth-b\)/);
  for (const port of ['veth-a', 'veth-b']) {
    await run('bridge', ['link', 'set', 'dev', port, 'hairpin', 'on']);
  }
  await isQuiet();

  const met = async (address: string) => {
    const to = { protocol: 'TCP', to: { address, port: 80 }, timeoutMs: paced(700) } as const;
    const tried = await lab.actors['pod-b'].connect(to, 6);
    return [...new Set(tried.map(({ outcome }) => outcome.kind))];
  };
  expect(await met(silent)).toEqual(['timeout']);
  await isSaid(/^silent endpoint_silent: Endpoint 10\.244\.2\.77:8080 .* seen since /);
  await run('conntrack', ['-D', '--orig-dst', silent]);
  await isQuiet();

  // Nothing listens there.
  const refused = { protocol: 'TCP', to: { address: clusterIp(53).IPv4, port: 80 } } as const;
  const tried = () => lab.actors['pod-a'].connect({ ...refused, timeoutMs: paced(700) }, 20);
  await isSaid(/^refusing endpoint_silent: .* 10\.244\.1\.3:8080 .* refuses all/, tried);
  await isQuiet();

  for (const [family, of, at, block, via] of hopless) {
    const address = clusterIp(54)[family];
    await run('ip', ['route', 'add', block, 'via', via]);
    // The kernel forgets a machine that did not answer, soon where all namespaces know many.
    const unmet = async () => expect(await met(address)).not.toContain('connected');
    await isSaid(
      new RegExp(`^${of} no_route: .* ${at}: its next hop ${via} does not answer on eth0 `),
      unmet,
    );
    await run('ip', ['route', 'del', block]);
    await run('conntrack', ['-D', '-f', family.toLowerCase(), '--orig-dst', address]);
    await isQuiet();
  }

  // As kube-proxy does, which writes again what a takeover removes each minute.
  const written = 'add table ip kube-proxy; add chain ip kube-proxy services';
  const write = () => run('nft', ['-f', '-'], written);
  await isSaid(/^This node: kube-proxy runs here as well: its table ip kube-proxy is there/, write);
  await run('nft', ['-f', '-'], 'add table ip kube-proxy; delete table ip kube-proxy');
  await isQuiet();

  // As Docker does, and as a firewall that denies a pod.
  const foreign = (rules: string) =>
    run('nft', ['-f', '-'], `table inet foreign { set denied { type ipv4_addr; }; ${rules}; }`);
  await foreign(
    'chain through { type filter hook forward priority 0; policy drop; iifname "docker0" accept; }',
  );
  await isSaid(
    /^taken rule_in_the_way: Chain inet foreign through .* drops packets of pods of this/,
  );
  expect(await met(clusterIp(51).IPv4)).toEqual(['timeout']);
  await run('nft', ['delete', 'table', 'inet', 'foreign']);
  await isQuiet();
  await foreign(
    'chain pre { type filter hook prerouting priority -300; ip saddr @denied tcp dport 80 drop; }',
  );
  await run('nft', ['add', 'element', 'inet', 'foreign', 'denied', `{ ${POD_B_IP.IPv4} }`]);
  await isSaid(
    /^This node: pod 10\.244\.1\.3 does not reach default\/.* of chain inet foreign pre/,
  );
  expect(await met(clusterIp(51).IPv4)).toEqual(['timeout']);
  await run('nft', ['delete', 'table', 'inet', 'foreign']);
  await isQuiet();

  await sysctl('net.ipv4.ip_forward=0');
  await isSaid(/^This node: net\.ipv4\.ip_forward is 0: /);
  await sysctl('net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1');
  await isQuiet();

  await sysctl('net.ipv4.conf.all.rp_filter=1');
  const to = { address: NODE_SECOND_IP.IPv4, port: hosted };
  await lab.actors.client.connect({ protocol: 'TCP', to, timeoutMs: paced(700) }, 12);
  await isSaid(/^This node: rp_filter has dropped \d+ packets since /);

  await lab.actors.node.listen('TCP', NODE_IP.IPv4, taken);
  await isSaid(/^taken address_taken: A program of this node listens at node port 30080\/TCP/);

  // As network plugins do for a hostPort.
  const hostPort = `tcp dport ${hosted} dnat to ${POD_B_IP.IPv4}:8080`;
  const hook = 'type nat hook prerouting priority -101; fib daddr type local jump hosts';
  await run(
    'nft',
    ['-f', '-'],
    `table ip ports { chain hosts { ${hostPort}; }; chain pre { ${hook}; }; }`,
  );
  await isSaid(/^hosted rule_in_the_way: A rule of another program /);
}, 900_000);

/** `fairlead drops` of the running program, with real packets of several clients. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { FoundDrop } from '../../src/ask/drops.ts';
import type { Namespace } from '../conformance/namespace.ts';
import { type ActorName, CLIENT_IP, clusterIp, POD_A_IP, POD_B_IP } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { DEFAULT_CLUSTER_CIDR, service, slices } from '../lab/objects.ts';
import { answerMs, paced } from '../lab/pace.ts';
import { inForce, listens, Place, Program, until } from './program.ts';

const [web, empty, names] = [10, 11, 12].map((number) => clusterIp(number));
const nodePort = 30_010;

let lab: Lab;
let namespace: Namespace;

beforeAll(async () => {
  lab = await createLab();
  const { namespace: name, namespacePath: path } = lab.node;
  const run: Namespace['run'] = (program, args, input) => lab.node.run([program, ...args], input);
  namespace = { name, path, run };
  const a = lab.actors['pod-a'];
  for (const address of Object.values(POD_A_IP)) await a.listen('TCP', address, 8080);
  await a.listen('UDP', POD_A_IP.IPv4, 8080);
});

afterAll(() => lab.close());

/** Another program's rules, which drop what one pod sends, and all datagrams of the client. */
const policies = `table inet netpol {
  set denied { type ipv4_addr; elements = { ${POD_B_IP.IPv4} }; }
  chain polpa {
    type filter hook forward priority 10; policy accept;
    ip saddr @denied tcp dport 8080 drop
    ip saddr ${CLIENT_IP.IPv4} udp dport 8080 drop
  }
}`;

async function connect(from: ActorName, address: string, port: number, of: 'TCP' | 'UDP' = 'TCP') {
  const to = { address, port };
  const timeoutMs = from === 'pod-b' || of === 'UDP' ? paced(500) : answerMs;
  const [one] = await lab.actors[from].connect({ protocol: of, to, timeoutMs }, 1);
  return one!.outcome.kind;
}

const modes = ['nftables', 'iptables'] as const;

test.each(modes)('in mode %s, drops names who stops what, and nothing else', async (mode) => {
  const place = new Place(namespace);
  place.configure({
    ...{ mode, clusterCIDR: DEFAULT_CLUSTER_CIDR, detectLocalMode: 'ClusterCIDR' },
  });
  const ports = [{ port: 80, nodePort }];
  const udp = [{ port: 80, protocol: 'UDP' as const }];
  place.apply(
    ['pod-a'],
    service('empty', { clusterIp: clusterIp(11), ports, spec: { type: 'NodePort' } }),
    service('names', { clusterIp: clusterIp(12), ports: udp }),
    ...slices('names', ['pod-a'], { ports: [{ port: 8080, protocol: 'UDP' }] }),
  );
  const proxy = place.start();
  await proxy.logged(inForce, 2);
  await listens(namespace, 10_249);
  // Without those that count refused connections for some seconds after a question.
  const tables = async () =>
    (await namespace.run('nft', ['list', 'tables'])).replaceAll(/^.* fairlead-refused\n/gm, '');
  await namespace.run('nft', ['-f', '-'], policies);
  const before = await tables();
  const watcher = new Program(namespace, ['drops', '-o', 'json']);
  const found = (): FoundDrop[] =>
    watcher.stdout.split('\n').flatMap((line) => (line.endsWith('}') ? [JSON.parse(line)] : []));
  const finds = async (given: Partial<FoundDrop>): Promise<FoundDrop> => {
    const isIt = (one: FoundDrop) =>
      Object.entries(given).every(([name, value]) => one[name as keyof FoundDrop] === value);
    await until(() => found().some(isIt), `drops finds ${JSON.stringify(given)}`);
    return found().find(isIt)!;
  };
  await until(() => watcher.words.includes('Watching'), 'packets are watched');

  expect(await connect('client', web!.IPv4, 80)).toBe('answered');
  expect(await connect('client', web!.IPv6, 80)).toBe('answered');
  for (let i = 0; i < 2; i += 1) {
    expect(await connect('pod-b', web!.IPv4, 80)).toBe('timeout');
    expect(await connect('client', names!.IPv4, 80, 'UDP')).toBe('timeout');
  }
  const polpa = expect.stringMatching(/^It is dropped by rule \d+ of chain inet netpol polpa: /);
  const byOther = { outcome: 'dropped', by: 'another program' } as const;
  const dropped = await finds({ ...byOther, client: POD_B_IP.IPv4, address: web!.IPv4 });
  const service80 = { service: 'default/web', port: 80, interface: 'cni0' };
  expect(dropped).toMatchObject({ ...service80, protocol: 'TCP', because: polpa });
  const datagram = await finds({ ...byOther, client: CLIENT_IP.IPv4, address: names!.IPv4 });
  expect(datagram).toMatchObject({ service: 'default/names', protocol: 'UDP', because: polpa });

  // A client that gives up after one refusal is named as well.
  expect(await connect('client', '192.168.10.1', nodePort)).toBe('unreachable');
  expect(await connect('client', empty!.IPv6, 80)).toBe('unreachable');
  const ours = { outcome: 'rejected', by: 'fairlead', service: 'default/empty' } as const;
  const refused = await finds({ ...ours, client: CLIENT_IP.IPv4, port: nodePort });
  expect(refused.because).toMatch(/names no endpoint|No EndpointSlice belongs to it/);
  await finds({ ...ours, client: CLIENT_IP.IPv6, family: 'IPv6' });
  expect(
    found().filter(
      ({ client, service: name }) => client === CLIENT_IP.IPv4 && name === 'default/web',
    ),
  ).toEqual([]);

  watcher.kill('SIGINT');
  expect(await watcher.exitCode).toBe(1);
  const killed = new Program(namespace, ['drops']);
  await until(() => killed.words.includes('Watching'), 'packets are watched again');
  expect(await tables()).not.toBe(before);
  killed.kill('SIGKILL');
  await killed.exitCode;
  expect(await tables()).toBe(before);
  proxy.kill('SIGTERM');
  await proxy.exitCode;
  await lab.node.run(['nft', 'flush', 'ruleset']);
  await lab.actors.node.flushConntrack();
});

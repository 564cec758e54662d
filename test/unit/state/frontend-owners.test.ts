import { describe, expect, it } from 'vitest';
import { FrontendOwners, type Ownership } from '../../../src/state/frontend-owners.ts';
import { keysOf, type NodeSockets } from '../../../src/state/node-sockets.ts';
import { resolve } from '../../../src/state/resolve.ts';
import { finish } from '../../../src/state/steps.ts';
import type { Service } from '../../../src/state/types.ts';
import { address, context, http, portsOf, service } from './build.ts';
import { Cluster, frontends } from './cluster.ts';

const shared = '203.0.113.1';
const old = service({
  name: 'old',
  createdMs: 1,
  clusterIPs: ['10.96.0.1'],
  externalIPs: [shared],
});
const young = service({
  name: 'young',
  createdMs: 2,
  clusterIPs: ['10.96.0.2'],
  externalIPs: [shared],
});

describe('a port at an address of the node', () => {
  const node = '192.168.0.1';
  const sockets: NodeSockets = {
    addresses: keysOf([address(node)]),
    nodePorts: keysOf([address(node)]),
    listening: new Set([10256]),
  };
  const at = (port: number) => [{ ...http, port }];
  const thief = service({
    name: 'thief',
    createdMs: 1,
    clusterIPs: ['10.96.0.1'],
    externalIPs: [node],
    ports: at(30080),
  });
  const victim = service({
    name: 'victim',
    createdMs: 2,
    clusterIPs: ['10.96.0.2'],
    ports: [{ ...http, nodePort: 30080 }],
  });
  const spoils = `TCP ${node}:30080`;

  it('belongs to the node port of another Service, which is reported once', () => {
    const cluster = new Cluster(sockets);
    cluster.set(victim);
    expect(cluster.set(thief).takeConflicts()).toEqual([
      `ns/thief:http does not get ${spoils}, which ns/victim holds`,
    ]);
    expect(cluster.set(thief).takeConflicts()).toEqual([]);
  });

  it('belongs to the API server that is read from, against external IPs', () => {
    const server = { address: address('192.168.0.9').key, port: 6443 };
    const ports = [
      { ...http, name: 'api', port: 6443 },
      { ...http, name: 'web', port: 80 },
    ];
    const asks = { ...thief, externalIPs: [address('192.168.0.9')], ports };
    const cluster = new Cluster({ ...sockets, server });
    expect(cluster.set(asks).takeConflicts()).toEqual([
      'ns/thief:api does not get TCP 192.168.0.9:6443, which the API server holds',
    ]);
    const own = ['TCP 10.96.0.1:6443', 'TCP 10.96.0.1:80'];
    expect(cluster.of(asks).sort()).toEqual([...own, 'TCP 192.168.0.9:80'].sort());
    const bound = new Cluster({ ...sockets, server: { ...server, port: 'all' } });
    bound.set(asks);
    expect(bound.of(asks)).toEqual(own);
    // Who writes to the status of Services, or chooses ClusterIPs, knows what it does.
    const balanced = { ...asks, externalIPs: [], loadBalancerIPs: asks.externalIPs };
    expect(new Cluster({ ...sockets, server }).set(balanced).of(thief)).toHaveLength(4);
  });

  it('belongs to a program that listens there, against external IPs', () => {
    const hasProgram: NodeSockets['hasProgram'] = (protocol, at, port) =>
      protocol === 'TCP' && at.key === address(node).key && port === 10250;
    const ports = [
      { ...http, name: 'kubelet', port: 10250 },
      { ...http, name: 'datagrams', port: 10250, protocol: 'UDP' as const },
    ];
    const asks = { ...thief, externalIPs: [address(node), address('192.168.0.9')], ports };
    const cluster = new Cluster({ ...sockets, hasProgram });
    expect(cluster.set(asks).takeConflicts()).toEqual([
      `ns/thief:kubelet does not get TCP ${node}:10250, which a program of the node holds`,
    ]);
    expect(cluster.of(asks)).toHaveLength(5);
    expect(cluster.of(asks)).not.toContain(`TCP ${node}:10250`);
    // k3s gives the addresses of nodes to load balancers.
    const balanced = { ...asks, externalIPs: [], loadBalancerIPs: asks.externalIPs };
    expect(new Cluster({ ...sockets, hasProgram }).set(balanced).of(thief)).toHaveLength(6);
  });

  it('belongs to the proxy itself for TCP', () => {
    const cluster = new Cluster(sockets);
    const greedy = { ...thief, ports: at(10256) };
    expect(cluster.set(greedy).takeConflicts()).toEqual([
      `ns/thief:http does not get TCP ${node}:10256, which this proxy holds`,
    ]);
    expect(cluster.of(greedy)).toEqual(['TCP 10.96.0.1:10256']);
    const [forwarding] = resolve(greedy, [], context);
    const frontend = forwarding!.frontends.find(({ kind }) => kind === 'externalIP')!;
    expect(cluster.owners.ownerInsteadOf(forwarding!, frontend)).toBe('this proxy');
    const udp = { ...thief, ports: [{ ...http, protocol: 'UDP' as const, port: 10256 }] };
    cluster.set(udp);
    expect(cluster.of(udp)).toHaveLength(2);
  });
});

it('thousands of frontends are withdrawn in parts, of each of which the next claimant gets its own', () => {
  const of = (name: string, createdMs: number, count: number) => {
    const clusterIPs = [`10.96.0.${createdMs}`];
    return service({ name, createdMs, clusterIPs, externalIPs: [shared], ports: portsOf(count) });
  };
  const [large, small, other] = [of('large', 1, 1000), of('large', 1, 10), of('other', 2, 1000)];
  const owners = new FrontendOwners();
  const resolved = (one: Service) => resolve(one, [], context);
  for (const one of [large, other]) finish(owners.set(one, resolved(one)));
  const parts = [...owners.withdraw(large.key, resolved(small))];
  const gained = (all: Ownership['transfers']): number =>
    all.reduce((sum, one) => sum + one.gained.length, 0);
  // Of 990 ports at two addresses three parts of 512, and the rest with what is set.
  expect(parts.flatMap((part) => (part === undefined ? [] : gained(part.transfers)))).toEqual([
    256, 256, 256,
  ]);
  expect(gained(finish(owners.set(small, resolved(small))).transfers)).toBe(222);
  expect([...owners.withdraw(small.key, [])]).toEqual([]);
});

describe('a conflict about a frontend', () => {
  it('is reported to the one that loses, once', () => {
    const cluster = new Cluster();
    cluster.set(old);
    expect(cluster.set(young).takeConflicts()).toEqual([
      'ns/young:http does not get TCP 203.0.113.1:80, which ns/old holds',
    ]);
    expect(cluster.set(young).takeConflicts()).toEqual([]);
    expect(cluster.set(old).takeConflicts()).toEqual([]);
  });

  it('is reported when a better claim arrives later, and again for another owner', () => {
    const cluster = new Cluster();
    cluster.set(young);
    expect(cluster.set(old).takeConflicts()).toEqual([
      'ns/young:http does not get TCP 203.0.113.1:80, which ns/old holds',
    ]);
    expect(cluster.set(young).takeConflicts()).toEqual([]);

    const clusterIPs = [address('10.96.0.9')];
    cluster.set({ ...old, key: 'ns/oldest', name: 'oldest', createdMs: 0, clusterIPs }, young);
    expect(cluster.takeConflicts()).toEqual([
      'ns/old:http does not get TCP 203.0.113.1:80, which ns/oldest holds',
      'ns/young:http does not get TCP 203.0.113.1:80, which ns/oldest holds',
    ]);
  });

  it('is reported again when it recurs', () => {
    const cluster = new Cluster();
    cluster.set(old, young).remove(old).takeConflicts();
    expect(cluster.set(old).takeConflicts()).toHaveLength(1);
  });

  it('is not reported within a Service: its first port gets what two of its ports claim', () => {
    const ports = [http, { ...http, name: 'alias', nodePort: 30080 }];
    const cluster = new Cluster();
    expect(cluster.set({ ...old, ports }).takeConflicts()).toEqual([]);
    expect(cluster.owned.get('old')!.map((forwarding) => frontends([forwarding]))).toEqual([
      ['TCP 10.96.0.1:80', 'TCP 203.0.113.1:80'],
      ['TCP node port 30080'],
    ]);
  });
});

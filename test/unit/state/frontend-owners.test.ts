import { describe, expect, it } from 'vitest';
import { formatConflict, formatFrontend } from '../../../src/state/conflict.ts';
import { FrontendOwners, type Ownership, transferred } from '../../../src/state/frontend-owners.ts';
import { keysOf, type NodeSockets } from '../../../src/state/node-sockets.ts';
import { resolve } from '../../../src/state/resolve.ts';
import { finish } from '../../../src/state/steps.ts';
import type { Forwarding, Service } from '../../../src/state/types.ts';
import { address, http, service } from './build.ts';

function resolved(of: Service): Forwarding[] {
  return resolve(of, [], { zone: '', nodeAddresses: [], externalIPsEnabled: true });
}

function frontends(forwardings: readonly Forwarding[]): string[] {
  return forwardings.flatMap(({ servicePort, frontends: all }) =>
    all.map((frontend) => formatFrontend(servicePort.protocol, frontend)),
  );
}

/** What each Service owns, with all transfers applied. */
class Cluster {
  readonly owned = new Map<string, readonly Forwarding[]>();
  readonly owners = new FrontendOwners();
  readonly #sockets: NodeSockets | undefined;

  constructor(sockets?: NodeSockets) {
    this.#sockets = sockets;
  }

  /** Returns the conflicts that are reported. */
  set(of: Service): string[] {
    const forwardings = resolved(of);
    const ownership = finish(this.owners.set(of, forwardings, this.#sockets));
    this.owned.set(of.key, ownership.forwardings);
    return this.#apply(ownership);
  }

  remove({ key }: Service): string[] {
    this.owned.delete(key);
    return this.#apply(this.owners.release(key));
  }

  #apply({ conflicts, transfers }: Omit<Ownership, 'forwardings'>): string[] {
    for (const transfer of transfers) {
      const { forwarding: key, service: owner } = transfer;
      const forwardings = this.owned.get(owner)!;
      expect(forwardings.map((one) => one.key)).toContain(key);
      this.owned.set(
        owner,
        forwardings.map((one) =>
          one.key === key && one.family === transfer.family ? transferred(one, transfer) : one,
        ),
      );
    }
    return conflicts.map(formatConflict);
  }

  of({ key }: Service): string[] {
    return frontends(this.owned.get(key) ?? []).sort();
  }

  /** By name of the Service. */
  all(): Record<string, string[]> {
    const names = [...this.owned].map(([key, owned]) => [
      key.slice('ns/'.length),
      frontends(owned).sort(),
    ]);
    return Object.fromEntries(names);
  }
}

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

function settle(cluster: Cluster, ...services: Service[]): Record<string, string[]> {
  for (const of of services) cluster.set(of);
  return cluster.all();
}

describe('a frontend that two Services claim', () => {
  it('is reported with its owner', () => {
    const { owners } = new Cluster();
    for (const of of [young, old]) finish(owners.set(of, resolved(of)));
    const at = { address: address(shared), port: 80 };
    expect(owners.ownerOf('IPv4', 'TCP', at)).toBe('ns/old');
    const [forwarding] = resolved(young);
    const frontend = forwarding!.frontends.find(({ kind }) => kind === 'externalIP')!;
    expect(owners.ownerInsteadOf(forwarding!, frontend)).toBe('ns/old');
    expect(owners.ownerOf('IPv4', 'UDP', at)).toBeUndefined();
  });
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
    expect(cluster.set(thief)).toEqual([
      `ns/thief:http does not get ${spoils}, which ns/victim holds`,
    ]);
    expect(cluster.set(thief)).toEqual([]);
  });

  it('belongs to the API server that is read from, against external IPs', () => {
    const server = { address: address('192.168.0.9').key, port: 6443 };
    const ports = [
      { ...http, name: 'api', port: 6443 },
      { ...http, name: 'web', port: 80 },
    ];
    const asks = { ...thief, externalIPs: [address('192.168.0.9')], ports };
    const cluster = new Cluster({ ...sockets, server });
    expect(cluster.set(asks)).toEqual([
      'ns/thief:api does not get TCP 192.168.0.9:6443, which the API server holds',
    ]);
    const own = ['TCP 10.96.0.1:6443', 'TCP 10.96.0.1:80'];
    expect(cluster.of(asks).sort()).toEqual([...own, 'TCP 192.168.0.9:80'].sort());
    const bound = new Cluster({ ...sockets, server: { ...server, port: 'all' } });
    bound.set(asks);
    expect(bound.of(asks)).toEqual(own);
    // Who writes to the status of Services, or chooses ClusterIPs, knows what it does.
    const balanced = { ...asks, externalIPs: [], loadBalancerIPs: asks.externalIPs };
    expect(settle(new Cluster({ ...sockets, server }), balanced).thief).toHaveLength(4);
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
    expect(cluster.set(asks)).toEqual([
      `ns/thief:kubelet does not get TCP ${node}:10250, which a program of the node holds`,
    ]);
    expect(cluster.of(asks)).toHaveLength(5);
    expect(cluster.of(asks)).not.toContain(`TCP ${node}:10250`);
    // k3s gives the addresses of nodes to load balancers.
    const balanced = { ...asks, externalIPs: [], loadBalancerIPs: asks.externalIPs };
    expect(settle(new Cluster({ ...sockets, hasProgram }), balanced).thief).toHaveLength(6);
  });

  it('belongs to the proxy itself for TCP', () => {
    const cluster = new Cluster(sockets);
    const greedy = { ...thief, ports: at(10256) };
    expect(cluster.set(greedy)).toEqual([
      `ns/thief:http does not get TCP ${node}:10256, which this proxy holds`,
    ]);
    expect(cluster.of(greedy)).toEqual(['TCP 10.96.0.1:10256']);
    const [forwarding] = resolved(greedy);
    const frontend = forwarding!.frontends.find(({ kind }) => kind === 'externalIP')!;
    expect(cluster.owners.ownerInsteadOf(forwarding!, frontend)).toBe('this proxy');
    const udp = { ...thief, ports: [{ ...http, protocol: 'UDP' as const, port: 10256 }] };
    cluster.set(udp);
    expect(cluster.of(udp)).toHaveLength(2);
  });

  it('is available if node ports are not open there, and for other protocols', () => {
    const closed = { ...sockets, nodePorts: keysOf([]) };
    expect(settle(new Cluster(closed), thief, victim)).toMatchObject({
      thief: ['TCP 10.96.0.1:30080', spoils],
    });
    const udp = { ...victim, ports: [{ ...http, protocol: 'UDP' as const, nodePort: 30080 }] };
    expect(settle(new Cluster(sockets), thief, udp)).toMatchObject({
      thief: ['TCP 10.96.0.1:30080', spoils],
    });
  });
});

describe('a conflict about a frontend', () => {
  it('is reported to the one that loses, once', () => {
    const cluster = new Cluster();
    cluster.set(old);
    expect(cluster.set(young)).toEqual([
      'ns/young:http does not get TCP 203.0.113.1:80, which ns/old holds',
    ]);
    expect(cluster.set(young)).toEqual([]);
    expect(cluster.set(old)).toEqual([]);
  });

  it('is reported when a better claim arrives later, and again for another owner', () => {
    const cluster = new Cluster();
    cluster.set(young);
    expect(cluster.set(old)).toEqual([
      'ns/young:http does not get TCP 203.0.113.1:80, which ns/old holds',
    ]);
    expect(cluster.set(young)).toEqual([]);

    const clusterIPs = [address('10.96.0.9')];
    cluster.set({ ...old, key: 'ns/oldest', name: 'oldest', createdMs: 0, clusterIPs });
    expect(cluster.set(young)).toEqual([
      'ns/young:http does not get TCP 203.0.113.1:80, which ns/oldest holds',
    ]);
  });

  it('is reported again when it recurs', () => {
    const cluster = new Cluster();
    settle(cluster, old, young);
    cluster.remove(old);
    expect(cluster.set(old)).toHaveLength(1);
  });

  it('is not reported within a Service: its first port gets what two of its ports claim', () => {
    const ports = [http, { ...http, name: 'alias', nodePort: 30080 }];
    const cluster = new Cluster();
    expect(cluster.set({ ...old, ports })).toEqual([]);
    expect(cluster.owned.get('ns/old')!.map((forwarding) => frontends([forwarding]))).toEqual([
      ['TCP 10.96.0.1:80', 'TCP 203.0.113.1:80'],
      ['TCP node port 30080'],
    ]);
  });

  it('does not change Forwardings that lose nothing', () => {
    const forwardings = resolved(old);
    const { forwardings: owned } = finish(new FrontendOwners().set(old, forwardings));
    expect(owned[0]).toBe(forwardings[0]);
  });
});

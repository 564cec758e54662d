import { describe, expect, it } from 'vitest';
import { Claims } from '../../../src/state/claims.ts';
import { formatConflict, formatFrontend } from '../../../src/state/conflict.ts';
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

/** Claims without others between the steps of one Service. */
class WholeClaims {
  readonly #claims = new Claims();
  readonly #sockets: NodeSockets | undefined;

  constructor(sockets?: NodeSockets) {
    this.#sockets = sockets;
  }

  claim(of: Service, forwardings: readonly Forwarding[]) {
    const { concede, ...result } = finish(this.#claims.claim(of, forwardings, this.#sockets));
    return { ...result, again: finish(concede()) };
  }

  release(name: string): readonly string[] {
    return finish(this.#claims.release(name));
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
const third = service({
  name: 'third',
  createdMs: 3,
  clusterIPs: ['10.96.0.3'],
  externalIPs: [shared],
});

/** Claims for each Service in turn, and for those that have to claim again, as a sync would. */
function settle(claims: WholeClaims, ...services: Service[]): Record<string, string[]> {
  const known = new Map(services.map((of) => [`${of.namespace}/${of.name}`, of]));
  const held: Record<string, string[]> = {};
  const queue = [...known.keys()];
  for (let steps = 0; queue.length > 0; steps += 1) {
    expect(steps).toBeLessThan(100);
    const of = known.get(queue.shift()!)!;
    const result = claims.claim(of, resolved(of));
    held[of.name] = frontends(result.forwardings);
    queue.push(...result.again);
  }
  return held;
}

describe('a frontend that two Services claim', () => {
  it('is held by the one created first, whichever comes first', () => {
    const expected = {
      old: ['TCP 10.96.0.1:80', 'TCP 203.0.113.1:80'],
      young: ['TCP 10.96.0.2:80'],
    };
    expect(settle(new WholeClaims(), old, young)).toEqual(expected);
    expect(settle(new WholeClaims(), young, old)).toEqual(expected);
  });

  it('is held by the first by name when both were created at the same time', () => {
    const twin = { ...young, createdMs: 1 };
    expect(settle(new WholeClaims(), twin, old)).toMatchObject({ young: ['TCP 10.96.0.2:80'] });
  });

  it('is held by the one whose ClusterIP it is, even if that came later', () => {
    const thief = { ...old, externalIPs: [address('10.96.0.2')] };
    expect(settle(new WholeClaims(), thief, young)).toEqual({
      old: ['TCP 10.96.0.1:80'],
      young: ['TCP 10.96.0.2:80', 'TCP 203.0.113.1:80'],
    });
  });

  it("is a load balancer's before it is an external IP, whichever is older", () => {
    const thief = { ...old, externalIPs: [address('192.0.2.1')] };
    const victim = { ...young, loadBalancerIPs: [address('192.0.2.1')] };
    const expected = {
      old: ['TCP 10.96.0.1:80'],
      young: ['TCP 10.96.0.2:80', 'TCP 192.0.2.1:80', 'TCP 203.0.113.1:80'],
    };
    expect(settle(new WholeClaims(), thief, victim)).toEqual(expected);
    expect(settle(new WholeClaims(), victim, thief)).toEqual(expected);
  });

  it('goes by protocol and port: others of the same address are no conflict', () => {
    const udp = { ...young, ports: [{ ...http, protocol: 'UDP' as const }] };
    const high = { ...young, key: 'ns/high', name: 'high', ports: [{ ...http, port: 81 }] };
    expect(settle(new WholeClaims(), old, udp, high)).toMatchObject({
      young: ['UDP 10.96.0.2:80', 'UDP 203.0.113.1:80'],
    });
  });

  it('may be a node port, in each family on its own', () => {
    const v4 = service({ name: 'v4', ports: [{ ...http, nodePort: 30080 }], createdMs: 1 });
    const v6 = { ...v4, key: 'ns/v6', name: 'v6', clusterIPs: [address('fd00::1')] };
    const late = service({ name: 'late', ports: v4.ports, clusterIPs: ['10.96.0.3'] });
    expect(settle(new WholeClaims(), v6, v4, { ...late, createdMs: 2 })).toEqual({
      v4: ['TCP 10.96.0.1:80', 'TCP node port 30080'],
      v6: ['TCP [fd00::1]:80', 'TCP node port 30080'],
      late: ['TCP 10.96.0.3:80'],
    });
  });

  it('never belongs to two at once while it changes hands', () => {
    const claims = new WholeClaims();
    expect(frontends(claims.claim(young, resolved(young)).forwardings)).toHaveLength(2);

    const asks = claims.claim(old, resolved(old));
    expect(frontends(asks.forwardings)).toEqual(['TCP 10.96.0.1:80']);
    expect(asks.again).toEqual(['ns/young']);

    const gives = claims.claim(young, resolved(young));
    expect(frontends(gives.forwardings)).toEqual(['TCP 10.96.0.2:80']);
    expect(gives.again).toEqual(['ns/old']);

    const takes = claims.claim(old, resolved(old));
    expect(frontends(takes.forwardings)).toEqual(['TCP 10.96.0.1:80', 'TCP 203.0.113.1:80']);
    expect(takes.again).toEqual([]);
  });

  it('goes to the next best when the holder is deleted, or claims it no longer', () => {
    const claims = new WholeClaims();
    settle(claims, old, young, third);
    expect(claims.release('ns/old')).toEqual(['ns/young']);
    expect(settle(claims, young, third)).toMatchObject({
      young: ['TCP 10.96.0.2:80', 'TCP 203.0.113.1:80'],
    });

    const modest = { ...young, externalIPs: [] };
    expect(claims.claim(modest, resolved(modest)).again).toEqual(['ns/third']);
    expect(claims.release('ns/young')).toEqual([]);
    expect(frontends(claims.claim(third, resolved(third)).forwardings)).toContain(
      'TCP 203.0.113.1:80',
    );
  });

  it('goes to the other one when the holder is created anew', () => {
    const claims = new WholeClaims();
    settle(claims, old, young);
    expect(settle(claims, { ...old, createdMs: 9 }, young)).toMatchObject({
      old: ['TCP 10.96.0.1:80'],
      young: ['TCP 10.96.0.2:80', 'TCP 203.0.113.1:80'],
    });
  });

  it('goes to the next best when the best one leaves before it could take it', () => {
    const claims = new WholeClaims();
    claims.claim(young, resolved(young));
    claims.claim(old, resolved(old));
    claims.claim(third, resolved(third));
    const modest = { ...young, externalIPs: [] };
    expect(claims.claim(modest, resolved(modest)).again).toEqual(['ns/old']);
    expect(claims.release('ns/old')).toEqual(['ns/third']);
    expect(settle(claims, third)).toMatchObject({
      third: ['TCP 10.96.0.3:80', 'TCP 203.0.113.1:80'],
    });
  });

  it('makes nobody claim again when the one that leaves did not hold it', () => {
    const claims = new WholeClaims();
    settle(claims, old, young);
    expect(claims.release('ns/young')).toEqual([]);
    expect(claims.release('ns/unknown')).toEqual([]);
  });
});

describe('an address of the node', () => {
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

  it('has the node port of somebody else, whoever is older, and told', () => {
    const expected = {
      thief: ['TCP 10.96.0.1:30080'],
      victim: ['TCP 10.96.0.2:80', 'TCP node port 30080'],
    };
    expect(settle(new WholeClaims(sockets), thief, victim)).toEqual(expected);
    expect(settle(new WholeClaims(sockets), victim, thief)).toEqual(expected);
    const claims = new WholeClaims(sockets);
    claims.claim(victim, resolved(victim));
    expect(claims.claim(thief, resolved(thief)).conflicts.map(formatConflict)).toEqual([
      `ns/thief:http does not get ${spoils}, which ns/victim holds`,
    ]);
    expect(claims.claim(thief, resolved(thief)).conflicts).toEqual([]);
  });

  it('has it against a load balancer that gives addresses of nodes, too', () => {
    const balanced = { ...thief, externalIPs: [], loadBalancerIPs: [address(node)] };
    expect(settle(new WholeClaims(sockets), balanced, victim)).toMatchObject({
      thief: ['TCP 10.96.0.1:30080'],
    });
  });

  it('is let go of before the node port is taken, and had again when that goes', () => {
    const claims = new WholeClaims(sockets);
    expect(frontends(claims.claim(thief, resolved(thief)).forwardings)).toContain(spoils);
    const asks = claims.claim(victim, resolved(victim));
    expect(frontends(asks.forwardings)).toEqual(['TCP 10.96.0.2:80']);
    expect(asks.again).toEqual(['ns/thief']);
    const gives = claims.claim(thief, resolved(thief));
    expect(frontends(gives.forwardings)).toEqual(['TCP 10.96.0.1:30080']);
    expect(gives.again).toEqual(['ns/victim']);
    const takes = claims.claim(victim, resolved(victim));
    expect(frontends(takes.forwardings)).toContain('TCP node port 30080');
    expect(takes.again).toEqual([]);
    expect(claims.release('ns/victim')).toEqual(['ns/thief']);
    expect(frontends(claims.claim(thief, resolved(thief)).forwardings)).toContain(spoils);
  });

  it('answers health checks of somebody else', () => {
    const local = { type: 'LoadBalancer', externalTrafficPolicy: 'Local' } as const;
    const checked = { ...victim, ports: [http], healthCheckNodePort: 30080, ...local };
    expect(settle(new WholeClaims(sockets), thief, checked)).toMatchObject({
      thief: ['TCP 10.96.0.1:30080'],
    });
    expect(settle(new WholeClaims(sockets), thief)).toMatchObject({
      thief: ['TCP 10.96.0.1:30080', spoils],
    });
  });

  it('answers for the proxy itself, by TCP', () => {
    const claims = new WholeClaims(sockets);
    const greedy = { ...thief, ports: at(10256) };
    const { conflicts, forwardings } = claims.claim(greedy, resolved(greedy));
    expect(frontends(forwardings)).toEqual(['TCP 10.96.0.1:10256']);
    expect(conflicts.map(formatConflict)).toEqual([
      `ns/thief:http does not get TCP ${node}:10256, which this proxy holds`,
    ]);
    const udp = { ...thief, ports: [{ ...http, protocol: 'UDP' as const, port: 10256 }] };
    expect(frontends(claims.claim(udp, resolved(udp)).forwardings)).toHaveLength(2);
  });

  it('may be had with the own node port of that number, and on all other ports', () => {
    const both = { ...thief, ports: [{ ...http, port: 30080, nodePort: 30080 }] };
    expect(settle(new WholeClaims(sockets), both)).toEqual({
      thief: ['TCP 10.96.0.1:30080', spoils, 'TCP node port 30080'],
    });
    const other = { ...thief, ports: at(443) };
    expect(settle(new WholeClaims(sockets), other, victim)).toMatchObject({
      thief: ['TCP 10.96.0.1:443', `TCP ${node}:443`],
    });
  });

  it('is nothing special where node ports are not open, and for other protocols', () => {
    const closed = { ...sockets, nodePorts: keysOf([]) };
    expect(settle(new WholeClaims(closed), thief, victim)).toMatchObject({
      thief: ['TCP 10.96.0.1:30080', spoils],
    });
    const udp = { ...victim, ports: [{ ...http, protocol: 'UDP' as const, nodePort: 30080 }] };
    expect(settle(new WholeClaims(sockets), thief, udp)).toMatchObject({
      thief: ['TCP 10.96.0.1:30080', spoils],
    });
  });
});

describe('a conflict', () => {
  it('is reported to the one that loses, once', () => {
    const claims = new WholeClaims();
    claims.claim(old, resolved(old));
    const { conflicts } = claims.claim(young, resolved(young));
    expect(conflicts.map(formatConflict)).toEqual([
      'ns/young:http does not get TCP 203.0.113.1:80, which ns/old holds',
    ]);
    expect(claims.claim(young, resolved(young)).conflicts).toEqual([]);
    expect(claims.claim(old, resolved(old)).conflicts).toEqual([]);
  });

  it('is reported when a better claim comes later, and again against another holder', () => {
    const claims = new WholeClaims();
    claims.claim(young, resolved(young));
    expect(claims.claim(old, resolved(old)).conflicts).toEqual([]);
    expect(claims.claim(young, resolved(young)).conflicts).toHaveLength(1);

    const oldest = {
      ...old,
      key: 'ns/oldest',
      name: 'oldest',
      createdMs: 0,
      clusterIPs: [address('10.96.0.9')],
    };
    claims.claim(oldest, resolved(oldest));
    const [again] = claims.claim(young, resolved(young)).conflicts;
    expect(again?.holder).toBe('ns/oldest');
  });

  it('is reported anew when it comes back', () => {
    const claims = new WholeClaims();
    settle(claims, old, young);
    claims.release('ns/old');
    settle(claims, young);
    claims.claim(old, resolved(old));
    expect(claims.claim(young, resolved(young)).conflicts).toHaveLength(1);
  });

  it('is none within a Service: the first port has what two of its ports claim', () => {
    const ports = [http, { ...http, name: 'alias', nodePort: 30080 }];
    const claims = new WholeClaims();
    const result = claims.claim(old, resolved({ ...old, ports }));
    expect(result.conflicts).toEqual([]);
    expect(result.forwardings.map((forwarding) => frontends([forwarding]))).toEqual([
      ['TCP 10.96.0.1:80', 'TCP 203.0.113.1:80'],
      ['TCP node port 30080'],
    ]);
  });

  it('leaves Forwardings alone that lose nothing', () => {
    const forwardings = resolved(old);
    expect(new WholeClaims().claim(old, forwardings).forwardings[0]).toBe(forwardings[0]);
  });
});

/** Which endpoint a client gets when another one did not answer. */
import { describe, expect, it } from 'vitest';
import { Balancer } from '../../../../src/modes/sockets/balancer.ts';
import type { Endpoint } from '../../../../src/modes/sockets/connection.ts';
import { servedFrontends } from '../../../../src/modes/sockets/frontends.ts';
import { Memories } from '../../../../src/modes/sockets/memory.ts';
import { Traffic } from '../../../../src/modes/sockets/traffic.ts';
import { cidr, ips, ready, resolveOne, service, slice } from '../../state/build.ts';

const client = '192.0.2.1';

function balancer(endpoints: readonly string[]): Balancer {
  return balancers(endpoints)[0]!;
}

/** Of each frontend. */
function balancers(endpoints: readonly string[], fields: Parameters<typeof service>[0] = {}) {
  const all = Object.fromEntries(endpoints.map((ip) => [ip, ready]));
  const of = resolveOne(service(fields), [slice(all)]);
  const localDetector = { kind: 'cidr', cidr: cidr('10.244.0.0/16') } as const;
  const config = { family: 'IPv4', localDetector, localhostNodePorts: false } as const;
  const environment = { serviceCIDRs: [], nodePortAddresses: [], hostAddresses: [] };
  const [memories, traffic] = [new Memories(), new Traffic()];
  return servedFrontends(of, { config, environment }).map(
    (frontend) => new Balancer(frontend, memories, traffic),
  );
}

function text({ index, pool }: Endpoint): string {
  return pool.text(index);
}

it('the node is one client for session affinity, whichever address of a Service it asks', () => {
  const externalIPs = ['198.51.100.1'];
  const [inside, outside] = balancers(ips(4), { externalIPs, affinityTimeoutSeconds: 60 });
  const first = text(inside!.first('10.96.0.1')!);
  for (let i = 0; i < 3; i += 1) {
    outside!.first(`192.0.2.${i}`);
    expect(text(outside!.first('198.51.100.1')!)).toBe(first);
  }
});

it('a Service with source ranges takes itself for a client where they include the node', () => {
  const loadBalancerIPs = ['198.51.100.1'];
  const loadBalancerSourceRanges = ['192.168.0.0/24'];
  const all = balancers(ips(1), { loadBalancerIPs, loadBalancerSourceRanges });
  const guarded = all.find(({ frontend }) => frontend.clients !== undefined)!;
  const clients = ['192.168.0.9', '198.51.100.1', '198.51.100.2', '10.244.0.9'];
  const isServed = clients.map((each) => guarded.first(each) !== undefined);
  expect(isServed).toEqual([true, true, false, false]);
});

describe('a client whose endpoint did not answer', () => {
  it.each([0, 1, 2, 3, 4])('gets all others where %i clients come in between', (count) => {
    const of = balancer(ips(4));
    const tried = [of.first(client)!];
    for (let attempt = 1; attempt < 4; attempt += 1) {
      for (let i = 0; i < count; i += 1) of.first('192.0.2.2');
      tried.push(of.another(client, tried)!);
    }
    expect(new Set(tried.map(text)).size).toBe(4);
  });

  it('gets one again where all were tried', () => {
    const of = balancer(['10.244.0.1']);
    const tried = [of.first(client)!];
    expect(text(of.another(client, tried)!)).toBe('10.244.0.1:8080');
  });
});

import { describe, expect, it } from 'vitest';
import { SuspectFrontends } from '../../../src/conntrack/frontends.ts';
import { eachSuspect } from '../../../src/conntrack/policy.ts';
import { endpointKey } from '../../../src/net/endpoint-list.ts';
import { frontendKey } from '../../../src/state/frontend-key.ts';
import { FrontendsInForce } from '../../../src/state/frontends-in-force.ts';
import { address, ready } from '../state/build.ts';
import { dns } from './build.ts';

function endpoint(ip: string) {
  return endpointKey('IPv4', Uint8Array.of(...address(ip).bytes, 5353 >> 8, 5353 & 0xff), 0);
}

describe('suspect frontends', () => {
  it('collect the endpoints that they lost in several changes', () => {
    const [one, two, three] = ['10.0.0.1', '10.0.0.2', '10.0.0.3'];
    const fields = { externalIPs: ['203.0.113.1'] };
    const lives = [[one, two, three], [two, three], [three], [one]].map((of) => dns(of, fields));
    const frontends = new SuspectFrontends();
    for (const [i, next] of lives.entries()) eachSuspect(lives[i - 1], next, frontends.suspect);
    for (const frontend of lives[0]!.frontends) {
      expect(frontends.fresh.get(frontendKey(frontend))).toEqual(
        new Set([one, two, three].map(endpoint)),
      );
    }
    frontends.markDue();
    eachSuspect(lives[3], lives[2], frontends.suspect);
    for (const frontend of lives[0]!.frontends) {
      expect(frontends.fresh.get(frontendKey(frontend))).toEqual(new Set([endpoint(one)]));
    }
  });

  it('collect one that got packets although it does not serve', () => {
    const both = dns({ '10.0.0.1': ready, '10.0.0.2': { is: ['ready'] } });
    const frontends = new SuspectFrontends();
    eachSuspect(undefined, both, frontends.suspect);
    frontends.markDue();
    eachSuspect(both, dns(['10.0.0.1']), frontends.suspect);
    const key = frontendKey(both.frontends[0]!);
    expect(frontends.fresh.get(key)).toEqual(new Set([endpoint('10.0.0.2')]));
  });

  it('of more endpoints than a number, the last that they lost count', () => {
    const frontends = new SuspectFrontends();
    const key = frontendKey(dns(['10.0.0.1']).frontends[0]!);
    const some = (from: number, count: number) => {
      return new Set(Array.from({ length: count }, (_, i) => from + i));
    };
    const lostMax = 16_384;
    frontends.suspect(key, some(0, lostMax));
    frontends.suspect(key, some(lostMax, 10));
    expect(frontends.fresh.get(key)).toEqual(some(10, lostMax));
  });
});

it('a frontend in force has the Service that took it last, also before the other releases it', () => {
  const inForce = new FrontendsInForce('IPv4');
  const [one, two] = ['10.96.0.1', '10.96.0.2'];
  const of = (name: string, ...ips: string[]) => dns([], { name, clusterIPs: ips });
  const owners = [53, undefined].flatMap((port) => [one, two].map((ip) => ({ port, ip })));
  const found = () => {
    const at = { protocol: 'UDP' } as const;
    return owners.map(({ ip, port }) => inForce.at({ ...at, port, address: address(ip) }).service);
  };
  inForce.changed(undefined, of('web', one, two));
  inForce.changed(undefined, of('shop', one));
  inForce.changed(of('web', one, two), of('web', two));
  expect(found()).toEqual(['shop', 'web', 'shop', 'web']);
  inForce.changed(of('shop', one), undefined);
  expect(found()).toEqual(['', 'web', '', 'web']);
});

import { describe, expect, it } from 'vitest';
import { Frontends, lostMax } from '../../../src/conntrack/frontends.ts';
import { endpointKey } from '../../../src/net/endpoint-list.ts';
import { frontendKey } from '../../../src/state/frontend-key.ts';
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
    const frontends = new Frontends();
    for (const [i, next] of lives.entries()) frontends.changed(lives[i - 1], next);
    for (const frontend of lives[0]!.frontends) {
      expect(frontends.fresh.get(frontendKey(frontend))).toEqual(
        new Set([one, two, three].map(endpoint)),
      );
    }
    frontends.ripen();
    frontends.changed(lives[3], lives[2]);
    for (const frontend of lives[0]!.frontends) {
      expect(frontends.fresh.get(frontendKey(frontend))).toEqual(new Set([endpoint(one)]));
    }
  });

  it('collect one that got packets although it does not serve', () => {
    const both = dns({ '10.0.0.1': ready, '10.0.0.2': { is: ['ready'] } });
    const frontends = new Frontends();
    frontends.changed(undefined, both);
    frontends.ripen();
    frontends.changed(both, dns(['10.0.0.1']));
    const key = frontendKey(both.frontends[0]!);
    expect(frontends.fresh.get(key)).toEqual(new Set([endpoint('10.0.0.2')]));
  });

  it('of more endpoints than a number, the last that they lost count', () => {
    const frontends = new Frontends();
    const key = frontendKey(dns(['10.0.0.1']).frontends[0]!);
    const some = (from: number, count: number) => {
      return new Set(Array.from({ length: count }, (_, i) => from + i));
    };
    frontends.suspect(key, some(0, lostMax));
    frontends.suspect(key, some(lostMax, 10));
    expect(frontends.fresh.get(key)).toEqual(some(10, lostMax));
  });
});

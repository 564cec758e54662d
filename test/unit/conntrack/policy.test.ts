/** What the model of `reconciler.prop.test.ts` does not have. */
import { describe, expect, it } from 'vitest';
import { SuspectFrontends } from '../../../src/conntrack/frontends.ts';
import {
  contradicting,
  destinationOf,
  eachSuspect,
  frontendKeys,
} from '../../../src/conntrack/policy.ts';
import { formatAddress } from '../../../src/net/address.ts';
import { FrontendsInForce } from '../../../src/state/frontends-in-force.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import { type FakeEntry, packedEntries } from '../../fake/conntrack.ts';
import { address } from '../state/build.ts';
import { dns, nodeAddress } from './build.ts';

type Step = readonly [previous: Forwarding | undefined, next: Forwarding | undefined];

/** Which of the entries, each `DESTINATION < REPLY SOURCE`, contradict after the changes. */
function stale(
  steps: readonly Step[],
  entries: readonly string[],
  untranslated: 'right' | 'wrong' = 'wrong',
) {
  const frontends = new SuspectFrontends();
  for (const [previous, next] of steps) eachSuspect(previous, next, frontends.suspect);
  frontends.markDue();
  const of = entries.map((text): FakeEntry => {
    const [to = '', answeredBy = ''] = text.split(' < ');
    const from = to.startsWith('[') ? '[fd99::1]:4000' : '172.16.0.9:4000';
    return { protocol: 'UDP', from, to, answeredBy };
  });
  const family = entries[0]!.startsWith('[') ? 'IPv6' : 'IPv4';
  const inForce = new FrontendsInForce(family);
  for (const [previous, next] of steps) inForce.changed(previous, next);
  const found = contradicting(packedEntries(family, of), {
    holders: inForce.of('UDP'),
    suspects: frontends.due,
    spared: frontends.fresh,
    nodePortAddresses: () => [address(nodeAddress)],
    untranslated,
  });
  return Array.from({ length: found.length }, (_, i) => entries[found.id(i) - 1]);
}

const both = dns(['10.244.0.1', '10.244.0.2']);
const one = dns(['10.244.0.1']);
const none = dns([]);
const toFirst = '10.96.0.10:53 < 10.244.0.1:5353';
const toSecond = '10.96.0.10:53 < 10.244.0.2:5353';
const notTranslated = '10.96.0.10:53 < 10.96.0.10:53';

describe('conntrack cleanup in a mode that translates nothing', () => {
  it('keeps the mode’s own entries, and deletes those of another mode to a removed endpoint', () => {
    const entries = [toFirst, toSecond, notTranslated];
    expect(stale([[both, one]], entries, 'right')).toEqual([toSecond]);
    expect(stale([[both, one]], entries)).toEqual([toSecond, notTranslated]);
  });
});

describe('conntrack entries', () => {
  it('of a frontend that has not changed are not judged by it', () => {
    const inForce = new FrontendsInForce('IPv4');
    inForce.changed(undefined, one);
    const to = { to: '10.96.0.10:53', answeredBy: '10.244.0.2:5353' };
    const entries = packedEntries('IPv4', [{ protocol: 'UDP', from: '172.16.0.9:4000', ...to }]);
    const judged = (suspects: Parameters<typeof contradicting>[1]['suspects']): number => {
      const criteria = { suspects, spared: new Map(), nodePortAddresses: () => [] };
      const of = { holders: inForce.of('UDP'), untranslated: 'wrong', ...criteria } as const;
      return contradicting(entries, of).length;
    };
    const [key] = frontendKeys(one);
    expect([new Map(), new Map([[key!, new Set<never>()]])].map(judged)).toEqual([0, 1]);
  });

  it('are deleted that were not translated if their frontend gets its first endpoint', () => {
    expect(stale([[none, one]], [notTranslated, toFirst, toSecond])).toEqual([
      notTranslated,
      toSecond,
    ]);
  });
});

describe('conntrack cleanup for addresses', () => {
  it('restores the frontend from its key, to filter a dump', () => {
    const fields = {
      ...({ type: 'LoadBalancer', nodePort: 30053 } as const),
      ...{ externalIPs: ['203.0.113.5'], loadBalancerIPs: ['203.0.113.6'] },
    };
    const texts = [dns([], fields), dns([], { clusterIPs: ['fd00::10'] })]
      .flatMap((of) => frontendKeys(of).map((key) => destinationOf(of.family, key)))
      .map(({ address: bytes, port }) => `${bytes && formatAddress(bytes)} ${port}`);
    expect(texts).toEqual([
      '10.96.0.10 53',
      '203.0.113.6 53',
      '203.0.113.5 53',
      'undefined 30053',
      'fd00::10 53',
    ]);
  });
});

describe('conntrack cleanup for a node port', () => {
  const fields = { type: 'NodePort', nodePort: 30053 } as const;
  const before = dns(['10.244.0.1', '10.244.0.2'], fields);
  const after = dns(['10.244.0.1'], fields);
  const here = `${nodeAddress}:30053 < 10.244.0.2:5353`;

  it('ignores entries with that port at the address of another Service', () => {
    const other = dns(['10.244.0.2'], {
      name: 'other',
      clusterIPs: ['10.96.0.20'],
      externalIPs: [nodeAddress],
      port: 30053,
    });
    const steps: Step[] = [
      [undefined, other],
      [before, after],
    ];
    expect(stale(steps, [here, `${nodeAddress}:30053 < 10.244.0.1:5353`])).toEqual([
      `${nodeAddress}:30053 < 10.244.0.1:5353`,
    ]);
  });
});

describe('a change that removes nothing, such as', () => {
  it.each([
    ['more endpoints', one, both],
    ['another order', both, dns(['10.244.0.2', '10.244.0.1'])],
    ['session affinity', both, dns(['10.244.0.1', '10.244.0.2'], { affinityTimeoutSeconds: 60 })],
    [
      'a policy that excludes a serving endpoint, deletes no entries',
      both,
      dns(['10.244.0.1', '10.244.0.2'], { internalTrafficPolicy: 'Local' }),
    ],
  ])('looks at no entry: %s', (_, previous, next) => {
    const frontends = new SuspectFrontends();
    eachSuspect(previous, next, frontends.suspect);
    expect([...frontends.fresh.keys()]).toEqual([]);
  });
});

describe('conntrack cleanup of a range of ports', () => {
  const range = { port: 5000, target: 5000, portRange: { first: 5000, last: 5999 } };
  const of = (...endpoints: string[]) => dns(endpoints, range);
  const both = of('10.244.0.1', '10.244.0.2');
  const narrow = dns(['10.244.0.1', '10.244.0.2'], {
    ...range,
    portRange: { first: 5000, last: 5500 },
  });
  const kept = '10.96.0.10:5400 < 10.244.0.1:5400';
  const lost = '10.96.0.10:5999 < 10.244.0.2:5999';
  const beyond = '10.96.0.10:6000 < 10.244.0.2:6000';

  it('knows endpoints by the port that packets keep', () => {
    const moved = '10.96.0.10:5400 < 10.244.0.1:5401';
    const untranslated = '10.96.0.10:5400 < 10.96.0.10:5400';
    const entries = [kept, lost, beyond, moved, untranslated];
    const wrong = [lost, beyond, moved, untranslated];
    expect(stale([[both, of('10.244.0.1')]], entries)).toEqual(wrong);
    expect(stale([[both, both]], entries)).toEqual([]);
  });

  it('leaves single ports within to their Service', () => {
    const single = dns(['10.244.0.2'], { name: 'single', port: 5400, target: 5400 });
    const ofSingle = '10.96.0.10:5400 < 10.244.0.2:5400';
    const steps: Step[] = [
      [undefined, single],
      [both, of('10.244.0.1')],
    ];
    expect(stale(steps, [ofSingle, kept, lost])).toEqual([kept, lost]);
  });

  it('looks at the range alone where its ports change, and at nothing where they do not', () => {
    const examined = (previous: Forwarding, next: Forwarding): number => {
      const frontends = new SuspectFrontends();
      eachSuspect(previous, next, frontends.suspect);
      return frontends.fresh.size;
    };
    expect(examined(both, narrow)).toBe(1);
    expect(examined(of('10.244.0.1'), both)).toBe(0);
  });

  it('deletes what led to ports that the range has lost, or has newly got', () => {
    const untranslated = '10.96.0.10:5999 < 10.96.0.10:5999';
    expect(stale([[both, narrow]], [kept, lost, beyond])).toEqual([lost, beyond]);
    expect(stale([[narrow, both]], [kept, lost, untranslated])).toEqual([untranslated]);
  });
});

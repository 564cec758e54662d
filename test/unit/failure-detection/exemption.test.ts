/** Who writes EndpointSlices has the node probe pods only: not itself, and no other Services. */
import { expect, it } from 'vitest';
import { Exemptions, type Known } from '../../../src/failure-detection/ports.ts';
import { detectionRemarks } from '../../../src/serve/ask/endpoint-answers.ts';
import type { Detection } from '../../../src/state/detection.ts';
import type { Seen } from '../../../src/state/resolve.ts';
import { address, cidr, node } from '../state/build.ts';
import { byAnnotation, eject, World } from './world.ts';

const services = [cidr('10.96.0.0/12'), cidr('fd00:96::/108')];
const known: Known = {
  interfaces: () => [address('10.244.0.1'), address('2001:db8::1')],
  podCIDRs: () => [cidr('10.244.0.0/16'), cidr('2001:db8::/64')],
  serviceCIDRs: (family) => services.filter((one) => one.address.family === family),
  ownerOf: ({ key }, port) =>
    key === address('10.244.9.9').key && port === 80 ? 'ns/web' : undefined,
};

it.each([
  ['10.244.0.5', undefined],
  ['2001:db8::2', undefined],
  ['127.0.0.1', 'it is a loopback address'],
  ['169.254.169.254', 'it is a link-local address'],
  ['fe80::1', 'it is a link-local address'],
  ['224.0.0.1', 'it is a multicast address'],
  ['::1', 'it is a loopback address'],
  ['0.0.0.0', 'it is the unspecified address'],
  ['10.244.0.1', 'it is an address of this node'],
  ['2001:db8::1', 'it is an address of this node'],
  ['10.96.0.1', 'it is in a ServiceCIDR'],
  ['fd00:96::a', 'it is in a ServiceCIDR'],
  ['10.244.9.9', 'it is an address of Service ns/web'],
  ['10.245.0.5', 'it is in no pod CIDR that this node knows'],
  ['2001:db8:0:1::2', 'it is in no pod CIDR that this node knows'],
])('of %s: %s', (text, reason) => {
  expect(new Exemptions(known).reasonOf(address(text), 80)).toBe(reason);
});

it('of another port of a frontend: none', () => {
  expect(new Exemptions(known).reasonOf(address('10.244.9.9'), 81)).toBeUndefined();
});

const pod = '10.0.0.1';
const doubtful = '10.0.0.2';

/** What a node may learn about an address after an endpoint with it is followed. */
const laterKnown: readonly (readonly [string, (one: World) => void])[] = [
  [
    'an address of the node',
    (one) => {
      one.own = [address(doubtful)];
    },
  ],
  [
    'in a ServiceCIDR',
    (one) => {
      one.serviceCIDRs = [cidr('10.0.0.2/31')];
    },
  ],
  [
    'a frontend of a Service',
    (one) => {
      one.owners.set(`${doubtful}:8080`, 'other/db');
    },
  ],
  [
    'in no pod CIDR',
    (one) => {
      one.detection.choose({ ...byAnnotation, clusterCIDR: [cidr('10.0.0.0/31')] });
    },
  ],
];

it.each(laterKnown)('an endpoint that is %s later is probed no more', async (_, learn) => {
  const one = new World();
  one.detection.choose(byAnnotation);
  one.say('web', [pod, doubtful], { mode: 'observe', probes: true });
  await one.clock.pass(3000);
  expect(new Set(one.probed)).toEqual(new Set([pod, doubtful]));
  learn(one);
  one.probed.length = 0;
  await one.clock.pass(10_000);
  expect(new Set(one.probed)).toEqual(new Set([pod]));
});

it.each(laterKnown)('an endpoint that is %s later is not left out', async (_, learn) => {
  const one = new World();
  one.detection.choose(byAnnotation);
  const key = one.say('web', [pod, doubtful], eject);
  await one.traffic([pod, doubtful], 8);
  learn(one);
  one.probed.length = 0;
  one.deaf.add(doubtful);
  await one.traffic([pod, doubtful], 40);
  expect(one.parts(key)).toEqual({});
  expect(one.probed).not.toContain(doubtful);
});

it.each(laterKnown)('an endpoint that is out, and then %s, comes back', async (_, learn) => {
  const one = new World();
  one.detection.choose(byAnnotation);
  const key = one.say('web', [pod, doubtful], eject);
  await one.traffic([pod, doubtful], 8);
  one.deaf.add(doubtful);
  await one.traffic([pod, doubtful], 20);
  expect(one.parts(key)).toEqual({ [`${doubtful}:8080`]: 0 });
  learn(one);
  await one.traffic([pod], 2);
  expect(one.events.at(-1)?.change).toMatchObject({ kind: 'returned', because: 'exempt' });
  expect(one.parts(key)).not.toMatchObject({ [`${doubtful}:8080`]: 0 });
});

it('without clusterCIDR, only pods of this node are probed, as its Node says at present', async () => {
  const one = new World();
  one.detection.choose({ ...byAnnotation, clusterCIDR: [] });
  const probes: Detection = { mode: 'observe', probes: true };
  const key = one.say('web', [pod, doubtful], probes);
  await one.clock.pass(5000);
  expect(one.probed).toEqual([]);
  const seen = { forwarding: one.of(key) } as Seen;
  const remarks = detectionRemarks(
    { failureDetection: one.detection },
    one.services.get(key)!,
    seen,
  );
  expect(remarks).toEqual([
    `${pod}:8080, ${doubtful}:8080 always get connections, without probes: ` +
      'it is in no pod CIDR that this node knows.',
  ]);
  one.state.node = node({ podCIDRs: ['10.0.0.0/31'] });
  await one.clock.pass(5000);
  expect(new Set(one.probed)).toEqual(new Set([pod]));
  one.probed.length = 0;
  one.state.node = node({ podCIDRs: ['10.0.0.2/31'] });
  await one.clock.pass(5000);
  expect(new Set(one.probed)).toEqual(new Set([doubtful]));
});

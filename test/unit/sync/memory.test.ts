import { expect, it, vi } from 'vitest';
import { decodeChange, decodeContext, goneChange } from '../../../src/source/decode.ts';
import type { Resource } from '../../../src/state/change.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { usedMiB } from '../../used-memory.ts';
import { nftablesWorld } from './nftables-world.ts';

// It keeps a processor busy for seconds, of which a busy machine gives little.
vi.setConfig({ testTimeout: 300_000 });

const ports = 1000;

/** The objects of a Service whose ports have other names and numbers each round. */
function objects(round: number): readonly (readonly [Resource, unknown])[] {
  const named = Array.from({ length: ports }, (_, i) => `round-${round}-port-${i}`);
  const labels = { 'kubernetes.io/service-name': 'large' };
  return [
    [
      'services',
      {
        metadata: { namespace: 'shop', name: 'large', uid: 'u' },
        spec: {
          clusterIP: '10.96.9.9',
          ports: named.map((name, i) => ({ name, port: 1000 + 10 * round + i })),
        },
      },
    ],
    [
      'endpointslices',
      {
        metadata: { namespace: 'shop', name: 'large-1', labels },
        addressType: 'IPv4',
        endpoints: [{ addresses: ['10.244.0.1'] }, { addresses: ['10.244.0.2'] }],
        ports: named.map((name, i) => ({ name, port: 8000 + i })),
      },
    ],
  ];
}

it('the sync keeps no memory of a large or deleted Service', async () => {
  const world = nftablesWorld(new FakeKernel(), 1_000_000);
  const context = decodeContext('here');
  const apply = (change: Parameters<typeof world.state.apply>[0]): void => {
    world.state.apply(change);
    world.loop.wake();
  };
  const update = async (round: number): Promise<void> => {
    for (const [resource, object] of objects(round)) {
      const { change } = decodeChange(resource, JSON.parse(JSON.stringify(object)), context);
      apply(change!);
    }
    await world.clock.pass(10_000);
    world.events.length = 0;
  };
  await world.start();
  await update(0);
  apply(goneChange('services', 'shop/large'));
  apply(goneChange('endpointslices', 'shop/large-1'));
  await world.clock.pass(10_000);
  const beforeMiB = usedMiB();

  for (let round = 1; round <= 5; round += 1) await update(round);
  const earlyMiB = usedMiB();
  for (let round = 6; round <= 25; round += 1) await update(round);
  const middleMiB = usedMiB();
  for (let round = 26; round <= 45; round += 1) await update(round);
  const lateMiB = usedMiB();
  // When lists of ports were remembered, it was 0.2 MiB a round, all the time. What V8 keeps of
  // code that it has compiled in between, and other files of the worker, come once.
  expect(Math.min(middleMiB - earlyMiB, lateMiB - middleMiB)).toBeLessThan(2);
  expect(world.sync.inForce.size).toBe(ports);

  apply(goneChange('services', 'shop/large'));
  apply(goneChange('endpointslices', 'shop/large-1'));
  await world.clock.pass(10_000);
  expect(world.sync.inForce.size).toBe(0);
  expect(usedMiB() - beforeMiB).toBeLessThan(5);
  await world.stop();
});

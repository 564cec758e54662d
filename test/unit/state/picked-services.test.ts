import { expect, it } from 'vitest';
import { PickedServices } from '../../../src/state/picked-services.ts';
import { resolve } from '../../../src/state/resolve.ts';
import { ClusterState } from '../../../src/state/store.ts';
import { type Forwarding, forwardingKey, type Service } from '../../../src/state/types.ts';
import { context, service } from './build.ts';

function world(isPicked: (service: Service) => boolean) {
  const state = new ClusterState();
  const time = { ms: 1000 };
  const desired = new Map<string, Forwarding>();
  const agent = { families: [{ family: 'IPv4', desired }] as const };
  const picked = new PickedServices({ state, agent, clock: { now: () => time.ms } }, isPicked);
  const put = (name: string, fields: Partial<Service> = {}): Service => {
    const one = { ...service({ name }), ...fields };
    state.apply({ kind: 'service', service: one });
    return one;
  };
  return { desired, picked, put, state, time };
}

it('picks Services, in the record that the state has of each', () => {
  const { picked, put, state } = world((one) => one.affinityTimeoutSeconds > 0);
  const first = put('a', { affinityTimeoutSeconds: 60 });
  put('b');
  picked.find();
  expect([picked.all, picked.has('ns/a'), picked.has('ns/b')]).toEqual([[first], true, false]);
  expect(['ns/a', 'ns/b'].map((key) => picked.get(key))).toEqual([first, undefined]);
  const after = () => ['ns/a', 'ns/b'].map((key) => picked.resolved(key));
  expect(after()).toEqual(['same record', 'none']);
  const second = put('a', { affinityTimeoutSeconds: 61 });
  expect([after(), picked.all]).toEqual([['another record', 'none'], [second]]);
  state.apply({ kind: 'service-gone', key: 'ns/a' });
  expect([after(), picked.all]).toEqual([['another record', 'none'], []]);
});

it('waits for those of which it is not known what is desired, for ten seconds at most', () => {
  const { desired, picked, put, time } = world(() => true);
  const one = put('a');
  put('without-ports', { ports: [] });
  picked.find();
  const isWaiting = [0, 9999, 1].map((ms) => {
    time.ms += ms;
    return picked.areResolving;
  });
  expect(isWaiting).toEqual([true, true, false]);
  picked.waitAgain();
  expect(picked.areResolving).toBe(true);
  for (const each of resolve(one, [], context)) desired.set(forwardingKey(each.servicePort), each);
  expect(picked.areResolving).toBe(false);
});

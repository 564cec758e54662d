/** Any life of a cluster, in the maps of connect-time translation. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  ConnectTimeBackend,
  type ConnectTimeTypes,
} from '../../../../src/connect-time/maps/backend.ts';
import { type Placement, standardRoom } from '../../../../src/connect-time/maps/placement.ts';
import type { Environment } from '../../../../src/modes/mode.ts';
import { nftablesMode } from '../../../../src/modes/nftables/mode.ts';
import { ModePlanner } from '../../../../src/modes/planner.ts';
import type { ProxyMode } from '../../../../src/modes/proxy-mode.ts';
import type { Family } from '../../../../src/net/address.ts';
import type { FakeKernel } from '../../../fake/kernel.ts';
import { failures, Story, type Subject, stories } from '../../modes/nftables/life.ts';
import { describePlanner } from '../../modes/planner-laws.ts';

const placement: Placement = {
  directory: '/bpf/fairlead',
  cgroup: '/cgroup',
  reach: 'all',
  excludes: true,
  room: standardRoom,
  secret: new Uint8Array(16).fill(7),
  leaseMs: 300_000,
};

/** Cgroups are excluded, and others when the environment changes otherwise. */
function excluding(environment: Environment): Environment {
  const { length } = environment.serviceCIDRs;
  return { ...environment, excludedCgroups: [7n, 8n + BigInt(length)] };
}

const planner: ProxyMode['planner'] = (config, environment) => {
  const maps = new ModePlanner<ConnectTimeTypes>({
    family: config.family,
    backend: () => new ConnectTimeBackend(config, placement),
    environment: excluding(environment),
  });
  const change = maps.changeEnvironment.bind(maps);
  maps.changeEnvironment = (next, pause) => change(excluding(next), pause);
  return maps;
};

const subject: Subject = {
  mode: { ...nftablesMode, planner },
  meaning: (kernel) => kernel.bpf.text(),
};

type Deed = 'detach' | 'delete' | 'overwrite' | 'add' | 'unpin';

/** What another program does to maps and programs; `nth` chooses an element. */
function meddleWithMaps({ bpf }: FakeKernel, deed: Deed, nth: number): void {
  const paths = [...bpf.maps.keys()];
  const path = paths[nth % Math.max(1, paths.length)] ?? '';
  const map = bpf.maps.get(path);
  const key = map && [...map.keys()][nth % Math.max(1, map.size)];
  if (deed === 'detach') bpf.links.clear();
  else if (deed === 'unpin') bpf.maps.delete(path);
  else if (map === undefined || key === undefined) return;
  // An array has its elements, and no others.
  else if (path.includes('/secret') && deed !== 'overwrite') return;
  else if (deed === 'delete') map.delete(key);
  else if (deed === 'overwrite') map.set(key, map.get(key)!.replaceAll(/^../g, 'fe'));
  else map.set(key.replace(/^../, 'ab'), map.get(key)!);
}

interface Meddling {
  readonly deed: Deed;
  readonly nth: number;
}

const meddlings: fc.Arbitrary<Meddling> = fc.record({
  deed: fc.constantFrom<Deed[]>('detach', 'delete', 'overwrite', 'add', 'unpin'),
  nth: fc.nat(20),
});

function meddle(kernel: FakeKernel, _family: Family, { deed, nth }: Meddling): void {
  meddleWithMaps(kernel, deed, nth);
}

describePlanner('the planner of connect-time translation', subject, { meddle, meddlings });

it('the connect-time planner expects as many elements as the kernel has, after random changes', () =>
  fc.assert(
    fc.asyncProperty(stories(failures), async ([opening, plot]) => {
      const story = new Story(subject, opening);
      await story.live(plot);
      story.settle();
      expect(await story.rig.planner.miscounts?.(story.rig.kernel)).toEqual([]);
    }),
  ));

/** The metrics of rules match the output of iptables-save. */
import { expect, it } from 'vitest';
import { iptablesMode } from '../../../../src/modes/iptables/mode.ts';
import type { Family } from '../../../../src/net/address.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { http, ready, readyLocal, service } from '../../state/build.ts';
import { at, endpoints, everyKind, Stage } from '../nftables/stage.ts';
import { save } from './save.ts';

const two = { '10.244.1.6': ready, '10.244.0.5': readyLocal };

class Counted {
  readonly kernel = new FakeKernel();
  readonly stage: Stage;
  readonly #family: Family;

  constructor(family: Family) {
    this.#family = family;
    this.stage = new Stage({ family, localhostNodePorts: true }, this.kernel, iptablesMode());
  }

  /** Rules in our chains. */
  held(): Record<string, number> {
    const tables = save(this.kernel, this.#family).split('COMMIT\n');
    const count = (name: string): number => {
      const table = tables.find((text) => text.startsWith(`*${name}\n`)) ?? '';
      return table.match(/^-A KUBE-/gm)?.length ?? 0;
    };
    return { nat: count('nat'), filter: count('filter') };
  }

  told(what: 'total' | 'written'): Record<string, number> {
    const counts = this.stage.rig.planner.takeReport?.().rules ?? [];
    return Object.fromEntries(counts.map(({ table, ...count }) => [table, count[what]]));
  }
}

it.each(['IPv4', 'IPv6'] as const)('%s: as many as there are, whatever happens', async (family) => {
  const counted = new Counted(family);
  const { stage } = counted;
  const every = everyKind(family, {
    loadBalancerSourceRanges: ['192.0.0.0/8'],
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: 31000,
    affinityTimeoutSeconds: 60,
  });
  // Both have the endpoint of this node, and so its rule in KUBE-HAIRPIN.
  const ports = [{ ...http, nodePort: 30081 }];
  const other = service({
    name: 'other',
    type: 'NodePort',
    clusterIPs: [at(family, '10.96.0.2')],
    ports,
  });
  const served = endpoints(family, two);
  const plays = [
    [],
    [[every, served]],
    [
      [every, served],
      [other, served],
    ],
    [[every], [other, served]],
    [[other, endpoints(family, { '10.244.1.6': ready })]],
    [],
  ] as const;
  for (const services of plays) {
    await stage.play(...services);
    expect(counted.told('total')).toEqual(counted.held());
  }
  await stage.play([every, served], [other, served]);
  const { rig } = stage;
  const wanted = rig.planned;
  const environment = { serviceCIDRs: [], nodePortAddresses: 'all' } as const;
  await rig.recover(wanted, environment);
  expect(counted.told('total')).toEqual(counted.held());
  await rig.crash(wanted, environment);
  expect(counted.told('total')).toEqual(counted.held());
  expect(counted.told('written')).toEqual({ nat: 0, filter: 0 });
});

it('the number of written rules includes those since the last count', async () => {
  const counted = new Counted('IPv4');
  const web = service({ clusterIPs: ['10.96.0.1'] });
  await counted.stage.play([web, endpoints('IPv4', { '10.244.1.6': ready })]);
  counted.told('written');
  await counted.stage.play([web, endpoints('IPv4', two)]);
  // The chain of the Service as a whole, and a rule in KUBE-HAIRPIN.
  expect(counted.told('written')).toEqual({ nat: 4, filter: 0 });
  await counted.stage.play([web]);
  expect(counted.told('written')).toEqual({ nat: 0, filter: 1 });
  expect(counted.told('written')).toEqual({ nat: 0, filter: 0 });
});

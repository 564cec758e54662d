import type { KernelReader } from '../../kernel/kernel.ts';
import { families } from '../../net/address.ts';
import type { OwnedObject } from '../mode.ts';
import { ModePlanner } from '../planner.ts';
import type { ProxyMode } from '../proxy-mode.ts';
import type { Descriptors } from '../sockets/descriptors.ts';
import { Switchboard } from '../sockets/switchboard.ts';
import { UserspaceBackend, type UserspaceTypes } from './backend.ts';
import { deleteLink, hasLink, linkName, probe } from './link.ts';
import { addressesOf } from './observation.ts';

/** Returns a mode with separate sockets. */
export function userspaceMode(descriptors?: Descriptors): ProxyMode {
  const switchboard = new Switchboard(descriptors);
  return {
    name: 'userspace',
    link: linkName,
    hasGeneration: false,
    translates: false,
    localhost: ['IPv4'],
    hasKubeProxyNames: false,
    usesIPVS: false,
    ownSettings: 'userspace',
    // Those kube-proxies that had this mode had no metric for it alone.
    metrics: [],
    trafficCounts: (_kernel, family, pause, report) =>
      switchboard.traffic.read(family, pause, report),
    dealing: {
      name: 'mode userspace',
      balances: new Set(['round-robin']),
      usesTables: true,
      refusesRanges: true,
    },
    probe,
    planner: (config, environment) =>
      new ModePlanner<UserspaceTypes>({
        family: config.family,
        backend: () => new UserspaceBackend(config, switchboard),
        environment,
        bindsAddresses: true,
      }),
    changed: (previous, next) => switchboard.changed(previous, next),
    owned,
    cleanup: async (kernel) => {
      switchboard.closeAll();
      await deleteLink(kernel);
    },
    close: () => switchboard.closeAll(),
  };
}

async function owned(kernel: KernelReader): Promise<OwnedObject[]> {
  if (!(await hasLink(kernel))) return [];
  const counts = await Promise.all(
    families.map(async (family) => (await addressesOf(kernel, family)).length),
  );
  const addresses = counts.reduce((sum, count) => sum + count, 0);
  const because = `only Fairlead uses this name; it has ${addresses} addresses of Services`;
  return [{ object: `interface ${linkName}`, because }];
}

import { missingExtensions } from '../../kernel/xt/probe.ts';
import { ModePlanner } from '../planner.ts';
import type { ProxyMode } from '../proxy-mode.ts';
import type { Sysctl, SysctlWishes } from '../sysctl.ts';
import { batchBytesMax, IptablesBackend, type IptablesTypes } from './backend.ts';
import { cleanup, owned } from './cleanup.ts';
import { isOurs } from './layout.ts';
import { RuleTraffic } from './traffic.ts';

/** Lets the kernel route packets with loopback addresses. We never unset it: others may need it. */
const routeLocalnet: Sysctl = {
  path: '/proc/sys/net/ipv4/conf/all/route_localnet',
  value: '1',
  purpose: 'let node ports answer on localhost',
  advice: 'iptables.localhostNodePorts: false leaves it alone',
};

export function sysctls({ localhostNodePorts }: SysctlWishes): readonly Sysctl[] {
  return localhostNodePorts ? [routeLocalnet] : [];
}

/** Returns a mode with separate traffic counts. */
export function iptablesMode(): ProxyMode {
  const traffic = new RuleTraffic();
  return {
    name: 'iptables',
    hasGeneration: true,
    translates: true,
    localhost: ['IPv4'],
    hasKubeProxyNames: true,
    usesIPVS: false,
    metrics: [
      'fullSync',
      'partialSync',
      'restoreFailures',
      'partialRestoreFailures',
      'iptablesRules',
      'iptablesRulesLast',
      'invalidDropped',
      'localhostAccepted',
      'iptablesSyncs',
    ],
    ownsChain: isOurs,
    sysctls,
    dealing: { name: 'mode iptables', balances: new Set(['random']), usesTables: false },
    probe: (kernel) => missingExtensions(kernel, 'IPv4'),
    planner: (config, environment) => {
      const counters = { counted: false };
      return new ModePlanner<IptablesTypes>({
        family: config.family,
        backend: () => new IptablesBackend(config, traffic, counters),
        environment,
        batchBytesMax,
      });
    },
    owned,
    cleanup,
    trafficCounts: (...of) => traffic.read(...of),
  };
}

import { missingExtensions } from '../../kernel/xt/probe.ts';
import type { ProxyMode } from '../mode.ts';
import { ModePlanner } from '../planner.ts';
import type { Sysctl } from '../sysctl.ts';
import { IptablesBackend } from './backend.ts';
import { cleanup, owned } from './cleanup.ts';
import { isOurs } from './layout.ts';

/** Lets the kernel route packets with loopback addresses. We never unset it: others may need it. */
const routeLocalnet: Sysctl = {
  path: '/proc/sys/net/ipv4/conf/all/route_localnet',
  value: '1',
  purpose: 'let node ports answer on localhost',
  advice: 'iptables.localhostNodePorts: false leaves it alone',
};

export const iptablesMode: ProxyMode = {
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
  sysctls: ({ localhostNodePorts }) => (localhostNodePorts ? [routeLocalnet] : []),
  probe: (kernel) => missingExtensions(kernel, 'IPv4'),
  planner: (config, environment) => new ModePlanner(new IptablesBackend(config), environment),
  owned,
  cleanup,
};

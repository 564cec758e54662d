import { missingExtensions } from '../../kernel/xt/probe.ts';
import { printXtOps } from '../../kernel/xt/script.ts';
import type { ProxyMode } from '../mode.ts';
import { cleanup, owned } from './cleanup.ts';
import { IptablesPlanner } from './planner.ts';

export const iptablesMode: ProxyMode = {
  name: 'iptables',
  probe: (kernel) => missingExtensions(kernel, 'IPv4'),
  planner: (config, environment) => new IptablesPlanner(config, environment),
  script: printXtOps,
  owned,
  cleanup,
};

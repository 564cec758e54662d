import { printXtOps } from '../../kernel/xt/script.ts';
import type { ProxyMode } from '../mode.ts';
import { cleanup, owned } from './cleanup.ts';
import { IptablesPlanner } from './planner.ts';
import { probe } from './probe.ts';

export const iptablesMode: ProxyMode = {
  name: 'iptables',
  probe,
  planner: (config, environment) => new IptablesPlanner(config, environment),
  script: printXtOps,
  owned,
  cleanup,
};

/**
 * What mode nftables has of this mode where no mode was asked for: the rules of table filter that
 * accept packets past a firewall of the host, and node ports on loopback addresses.
 */
import type { Kernel } from '../../kernel/kernel.ts';
import type { MissingFeature } from '../../kernel/nft/probe.ts';
import { markIs } from '../../kernel/xt/matches/mark.ts';
import {
  commentQuestion,
  missingExtensions,
  portQuestion,
  question,
  stateQuestion,
} from '../../kernel/xt/probe.ts';
import type { ModeConfig } from '../mode.ts';
import { ModePlanner } from '../planner.ts';
import type { ProxyMode } from '../proxy-mode.ts';
import { batchBytesMax, IptablesBackend, type IptablesTypes } from './backend.ts';
import { filterPart } from './layout.ts';
import { sysctls } from './mode.ts';
import { RuleTraffic } from './traffic.ts';

/** The mode, with packets treated as kube-proxy's mode iptables treats them. */
export function likeIptables(mode: ProxyMode): ProxyMode {
  return {
    ...mode,
    asIptables: true,
    localhost: ['IPv4'],
    metrics: [...mode.metrics, 'invalidDropped'],
    ownsChain: filterPart.has,
    sysctls,
    filterPlanner,
  };
}

/** What the kernel lacks for that; empty = nothing. */
export function missingForFilter(kernel: Kernel): Promise<readonly MissingFeature[]> {
  return missingExtensions(kernel, 'IPv4', [
    commentQuestion,
    stateQuestion,
    question('iptables match mark', 'xt_mark', 'filter', { matches: [markIs(1)] }),
    portQuestion('TCP'),
  ]);
}

function filterPlanner(config: ModeConfig): ModePlanner<IptablesTypes> {
  // The mode itself has the rules of node ports, and counts traffic.
  const own = { ...config, localhostNodePorts: false, countsTraffic: false };
  const counters = { counted: false };
  return new ModePlanner<IptablesTypes>({
    family: config.family,
    backend: () => new IptablesBackend(own, new RuleTraffic(), counters, filterPart),
    environment: { serviceCIDRs: [], nodePortAddresses: [] },
    batchBytesMax,
  });
}

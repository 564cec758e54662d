import { applyAll } from '../../kernel/failures.ts';
import type { Kernel, KernelReader } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import type { MissingFeature } from '../../kernel/nft/probe.ts';
import { familyWord } from '../../kernel/nft/words.ts';
import { atOneGeneration } from '../../kernel/steady.ts';
import {
  commentQuestion,
  missingExtensions,
  portQuestion,
  stateQuestion,
} from '../../kernel/xt/probe.ts';
import { type Family, families } from '../../net/address.ts';
import { noPause } from '../../time/pacer.ts';
import type { ModeConfig, OwnedObject } from '../mode.ts';
import { ModePlanner } from '../planner.ts';
import type { ProxyMode } from '../proxy-mode.ts';
import type { Sysctl, SysctlWishes } from '../sysctl.ts';
import { batchBytesMax, IptablesBackend, type IptablesTypes } from './backend.ts';
import { chainId, filterPart, hairpinChain, isOurs } from './layout.ts';
import { chainAt } from './objects.ts';
import { type IptablesObservation, jumpTarget, observe } from './observation.ts';
import { isOwnJump } from './repair.ts';
import { RuleTraffic } from './traffic.ts';
import { Transaction } from './transaction.ts';

/** Lets the kernel route packets with loopback addresses. We never unset it: others may need it. */
const routeLocalnet: Sysctl = {
  path: '/proc/sys/net/ipv4/conf/all/route_localnet',
  value: '1',
  purpose: 'let node ports answer on localhost',
  advice: 'iptables.localhostNodePorts: false leaves it alone',
};

function sysctls({ localhostNodePorts }: SysctlWishes): readonly Sysctl[] {
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
    dealing: {
      name: 'mode iptables',
      balances: new Set(['random', 'least-connections']),
      usesTables: false,
    },
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
  return missingExtensions(kernel, 'IPv4', [commentQuestion, stateQuestion, portQuestion('TCP')]);
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

/** What this mode has among the tables of iptables (behaviour document 3.6). */
async function owned(kernel: KernelReader): Promise<OwnedObject[]> {
  const objects: OwnedObject[] = [];
  for (const family of families) {
    const found = await observeSteadily(kernel, family);
    if (!isMarked(found)) continue;
    objects.push({
      object: `${ownChains(found).length} chains KUBE-* of family ${familyWord(NFPROTO[family])}`,
      because: `only Fairlead's iptables mode has ${hairpinChain} among them`,
    });
  }
  return objects;
}

/** Chains that others refer to stay. So do chains that may be kube-proxy's. */
async function cleanup(kernel: Kernel): Promise<void> {
  for (const family of families) await removeAll(kernel, family);
}

async function removeAll(kernel: Kernel, family: Family): Promise<void> {
  const found = await observeSteadily(kernel, family);
  if (!isMarked(found)) return;
  const transaction = new Transaction(family);
  const needed = new Set<string>();
  for (const reference of found.references) {
    const { from, handle, to } = reference;
    if (!isOwnJump(found, reference)) needed.add(chainId(to));
    else transaction.deleteRule({ ...from, id: undefined, handle, owner: '' });
  }
  // What stays needs what it refers to. (The Set grows while it is walked.)
  for (const id of needed) {
    const { table } = chainAt(id);
    for (const { expressions } of found.rulesOf(id) ?? []) {
      const chain = jumpTarget(expressions);
      if (chain !== undefined) needed.add(chainId({ table, chain }));
    }
  }
  for (const chain of ownChains(found)) {
    if (!needed.has(chainId(chain))) transaction.deleteChain(chain, '');
  }
  const batch = transaction.batch();
  if (batch === undefined) return;
  await applyAll(kernel, batch.ops, 'iptables.cleanup', `chains KUBE-* of ${family}`);
}

async function observeSteadily(kernel: KernelReader, family: Family): Promise<IptablesObservation> {
  return atOneGeneration(kernel, () => observe(kernel, family, noPause));
}

/** kube-proxy has chains of the same names, except for one: where that is, the chains are ours. */
function isMarked(found: IptablesObservation): boolean {
  return found.rulesOf(chainId({ table: 'nat', chain: hairpinChain })) !== undefined;
}

function ownChains(found: IptablesObservation) {
  return [...found.chainIds()].map(chainAt).filter(({ table, chain }) => isOurs(table, chain));
}

/** Other programs that write rules on this node, and whether they get on with Fairlead. */

import { type Finding, ok, warning } from '../../host/finding.ts';
import type { Kernel, ReplyOf } from '../../kernel/kernel.ts';
import { NF_INET, VERDICT } from '../../kernel/nft/constants.ts';
import { nftablesTable } from '../../takeover/names.ts';

interface Agent {
  readonly name: string;
  /** Matches the name of its table of nf_tables. */
  readonly table?: RegExp;
  /** Matches the name of one of its chains in nf_tables. */
  readonly chain?: RegExp;
  readonly link?: string;
  /** What to do about it; '' = nothing, because both get on. */
  readonly advice: string | ((here: ProxyTable) => string);
}

/** The table of kube-proxy's nftables mode, by which other programs know that mode. */
interface ProxyTable {
  readonly isThere: boolean;
  /** Our mode keeps or makes it (`src/takeover/sign.ts`). */
  readonly isKept: boolean;
}

/** Programs that may run on a node of Kubernetes, and how to recognise them. */
const agents: readonly Agent[] = [
  {
    name: 'Cilium',
    chain: /^CILIUM_/,
    link: 'cilium_host',
    advice: 'it may serve Services itself: install Fairlead only with kubeProxyReplacement=false',
  },
  {
    name: 'OVN-Kubernetes',
    chain: /^OVN-KUBE-/,
    link: 'ovn-k8s-mp0',
    advice: 'it serves Services itself: do not install Fairlead here',
  },
  {
    name: "Calico's eBPF mode",
    link: 'bpfin.cali',
    advice: 'it serves Services itself: do not install Fairlead here, or leave that mode first',
  },
  {
    name: 'Calico in nftables',
    table: /^calico$/,
    advice: ({ isThere, isKept }) =>
      isThere && !isKept
        ? 'with nftablesMode Auto it restarts and moves its rules to iptables: give Fairlead ' +
          'mode nftables, or set nftablesMode Enabled first'
        : '',
  },
  {
    name: 'Calico in iptables',
    chain: /^cali-/,
    advice: ({ isThere, isKept }) =>
      isKept && !isThere
        ? 'with nftablesMode Auto it restarts and moves its rules to nftables, as it does for ' +
          'kube-proxy in this mode; nftablesMode Disabled keeps them in iptables'
        : '',
  },
  {
    name: "kube-router's service proxy",
    link: 'kube-dummy-if',
    advice: 'it serves Services in IPVS: start it with --run-service-proxy=false',
  },
  { name: 'kube-router', chain: /^KUBE-ROUTER-/, advice: '' },
  {
    name: 'Antrea',
    chain: /^ANTREA-/,
    link: 'antrea-gw0',
    advice: 'with its proxyAll it serves Services itself: set antreaProxy.proxyAll=false',
  },
  {
    name: 'firewalld',
    table: /^firewalld$/,
    advice:
      'it refuses forwarded packets of zones that it does not trust: put the pod and Service ' +
      'networks into zone trusted, or stop it',
  },
  {
    name: 'ufw',
    chain: /^ufw6?-/,
    advice: 'it may refuse what is forwarded and node ports: ufw default allow routed',
  },
  { name: 'Docker', chain: /^DOCKER$/, advice: '' },
];

type Chain = ReplyOf<'chain'>;

interface Running {
  /** See `sign.ts`. */
  readonly keepsProxyTable: boolean;
  /** It has chain KUBE-NODEPORTS of table filter. */
  readonly acceptsHealthChecks: boolean;
}

/** `running`: what the mode that would run does. Rejects with KernelError. */
export async function checkAgents(kernel: Kernel, running: Running): Promise<Finding[]> {
  // Family 0 means all families.
  const tables = (await kernel.dump({ kind: 'tablesDump', family: 0 })).records.filter(
    (one) => one.kind === 'table',
  );
  const chains = (await kernel.dump({ kind: 'chainsDump', family: 0, table: '' })).records.filter(
    (one) => one.kind === 'chain',
  );
  const isThere = chains.some(({ table }) => table === nftablesTable);
  const findings: Finding[] = [];
  for (const agent of agents) {
    const place =
      tables.find(({ table }) => agent.table?.test(table))?.table ??
      chains.find(({ chain }) => agent.chain?.test(chain))?.chain ??
      (await linkOf(kernel, agent));
    if (place === undefined) continue;
    const check = `agent ${agent.name}`;
    const text = `is or was here: ${place}`;
    const { advice: about } = agent;
    const advice =
      typeof about === 'string' ? about : about({ isThere, isKept: running.keepsProxyTable });
    findings.push(advice === '' ? ok(check, text) : warning(check, text, advice));
  }
  for (const { table, chain } of chains.filter((one) => isDropping(one, NF_INET.FORWARD))) {
    const advice =
      'traffic to endpoints passes only if another rule of that chain accepts it; check that ' +
      'the network plugin adds one';
    findings.push(warning('forwarded packets', `${table} ${chain} drops by default`, advice));
  }
  for (const { table, chain } of chains.filter((one) => isDropping(one, NF_INET.LOCAL_IN))) {
    // Past other tables, chains of table filter accept nothing.
    if (running.acceptsHealthChecks && table === 'filter') continue;
    const advice =
      'health-check node ports pass only if another rule of that chain accepts them: accept ' +
      'them there, or load balancers take the node out';
    findings.push(warning('health checks', `${table} ${chain} drops by default`, advice));
  }
  if (findings.length > 0) return findings;
  return [ok('other agents', 'none of those that are known')];
}

function isDropping({ type, hook, policy }: Chain, at: number): boolean {
  return type === 'filter' && hook === at && policy === VERDICT.drop;
}

async function linkOf(kernel: Kernel, { link }: Agent): Promise<string | undefined> {
  if (link === undefined) return undefined;
  const { records } = await kernel.dump({ kind: 'linkGet', link });
  return records.length === 0 ? undefined : `interface ${link}`;
}

/** What `config validate` and `preflight` say of a configuration that is valid. Nothing is wrong. */
import type { Config } from './config.ts';
import { fieldPaths, settingTable } from './settings/index.ts';

interface Advice {
  /** What it is about: `mode iptables`, `ipvs.scheduler`. */
  readonly about: string;
  readonly text: string;
  /** What could be done; empty = nothing. */
  readonly advice: string;
}

type About = Pick<Config, 'mode' | 'given' | 'document'>;

export function adviceOn(config: About): Advice[] {
  return [...modeAdvice(config), ...externalIPAdvice(config)];
}

/** Who limits external IPs, or keeps kube-proxy's gate on, uses some. */
function externalIPAdvice({ given, document }: About): Advice[] {
  const gates = document.featureGates as Readonly<Record<string, boolean>> | undefined;
  const isLimited = given.some((path) => path.startsWith('externalIPs.'));
  if (!isLimited && gates?.AllowServiceExternalIPs !== true) return [];
  return [
    {
      about: 'externalIPs',
      text: 'stay in Fairlead; kube-proxy serves none by default from 1.40 on, and never from 1.43 on',
      advice: 'docs/external-ips.md says who may have which',
    },
  ];
}

/** Of the mode that the configuration asks for, or of an empty one. */
function modeAdvice({ mode, given }: About): Advice[] {
  if (mode === '') return emptyModeAdvice();
  if (!given.includes('mode')) return [];
  if (mode === 'iptables') {
    return [
      {
        about: 'mode iptables',
        text: 'is asked for; from Kubernetes 1.37 on, kubeadm writes it for every new cluster',
        advice:
          'consider nftables, whose rules do not grow with Services and which kube-proxy takes by ' +
          'default from 1.40 on (docs/migrating.md)',
      },
    ];
  }
  if (mode !== 'ipvs') return [];
  const settings = fieldPaths.filter((path) => path !== 'mode' && given.includes(path));
  return [
    {
      about: 'mode ipvs',
      text: "stays in Fairlead; kube-proxy's is off by default from 1.40 on, and gone in 1.43",
      advice: 'docs/from-ipvs.md has what takes the place of each setting in mode nftables',
    },
    ...settings.flatMap((path) => {
      const { forIpvs } = settingTable[path];
      return forIpvs === undefined ? [] : [{ about: path, text: forIpvs.kept, advice: '' }];
    }),
  ];
}

function emptyModeAdvice(): Advice[] {
  return [
    {
      about: 'mode empty',
      text:
        'runs mode nftables where the kernel can do it, and packets meet what kube-proxy 1.36 ' +
        'does with them by default, in its mode iptables',
      advice: 'docs/migrating.md has what packets meet in each mode',
    },
    ...modeDifferences.map(({ packets, iptables, empty, nftables }) => {
      const text = `are ${empty ?? iptables}`;
      const other = empty === undefined ? '' : `by kube-proxy they are ${iptables}; `;
      const advice = `${other}in mode nftables they are ${nftables}`;
      return { about: `mode empty: packets ${packets}`, text, advice };
    }),
  ];
}

/**
 * What packets meet in addition to translation, where it depends on `mode`. docs/migrating.md,
 * `config validate` and `preflight` have it from here; `test/stories/empty-mode.kernel.test.ts`
 * shows it.
 */
interface ModeDifference {
  readonly packets: string;
  /** With `iptables`, and with kube-proxy's default. */
  readonly iptables: string;
  /** With an empty `mode`, which runs mode nftables; absent: as with `iptables`. */
  readonly empty?: string;
  /** With `nftables`, as in kube-proxy's mode of this name. */
  readonly nftables: string;
  /** What gives packets in mode nftables what `iptables` gives them; empty = nothing. */
  readonly instead: string;
}

export const modeDifferences: readonly ModeDifference[] = [
  {
    packets: 'to 127.0.0.1:NODEPORT',
    iptables: 'answered, unless localhostNodePorts is false or nodePortAddresses leave it out',
    nftables: 'refused',
    instead: 'nodePortAddresses: [primary, localhost] opens it for TCP',
  },
  {
    packets: 'to node ports and health-check node ports at further addresses of the node',
    iptables: 'answered at all addresses',
    nftables: 'refused at all but the primary addresses',
    instead: 'nodePortAddresses: [all]',
  },
  {
    packets: 'that connection tracking calls INVALID, when they are forwarded',
    iptables: 'dropped, unless net.netfilter.nf_conntrack_tcp_be_liberal is 1',
    nftables: 'forwarded untranslated: their receiver may reset a good connection',
    instead: 'conntrack.tcpBeLiberal: true',
  },
  {
    packets: 'to health-check node ports, where chain INPUT of iptables drops',
    iptables: 'accepted by chain KUBE-NODEPORTS of iptables',
    nftables: 'dropped: load balancers take the node out',
    instead: "accept the ports in the host's firewall",
  },
  {
    packets: 'forwarded to endpoints, where chain FORWARD of iptables drops',
    iptables: 'accepted by chain KUBE-FORWARD of iptables, if they are masqueraded or answers',
    nftables: 'dropped, unless another rule accepts them',
    instead: "accept the pod network in the host's firewall",
  },
  {
    packets: 'to a port that a ClusterIP does not have, or to an address that no Service has',
    iptables: 'routed as all others',
    nftables: 'refused at a ClusterIP, dropped in a ServiceCIDR',
    instead: '',
  },
  {
    packets: "of the node's own to a load balancer whose Service has no endpoints",
    iptables: 'routed as all others',
    nftables: 'refused',
    instead: '',
  },
  {
    packets: 'to an address and port that a Service and a published or host port both have',
    iptables: 'sent to the Service',
    empty: 'sent where the other program wants them (decision 16)',
    nftables: 'sent where the other program wants them',
    instead: '',
  },
  {
    packets: 'of clients that session affinity has to remember',
    iptables: 'from 100 addresses for each endpoint, or as many as xt_recent was loaded for',
    empty: 'from 65,535 addresses for each Service port',
    nftables: 'from 65,535 addresses for each Service port',
    instead: '',
  },
];

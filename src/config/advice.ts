/** What `config validate` and `preflight` say of a configuration that is valid. Nothing is wrong. */
import type { Config } from './config.ts';
import { modeDifferences } from './mode-differences.ts';
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

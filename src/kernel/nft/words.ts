/** Names that nft(8) has for numbers of nf_tables. */
import { NF_INET } from './constants.ts';

/** NFPROTO_* of tables (linux/netfilter.h). */
const families: Readonly<Record<number, string>> = {
  1: 'inet',
  2: 'ip',
  3: 'arp',
  5: 'netdev',
  7: 'bridge',
  10: 'ip6',
};

/** `inet` */
export function familyWord(family: number): string {
  return families[family] ?? `family ${family}`;
}

const netdev = 5;
const hooks = ['prerouting', 'input', 'forward', 'output', 'postrouting', 'ingress'] as const;
const netdevHooks = ['ingress', 'egress'] as const;

/** `forward`; the number counts within the family of the chain's table. */
export function hookWord(family: number, hook: number): string {
  return (family === netdev ? netdevHooks : hooks)[hook] ?? `hook ${hook}`;
}

/** The hooks of packets of IP, in the order in which most meet them. */
export const ipHooks = [
  NF_INET.PRE_ROUTING,
  NF_INET.LOCAL_IN,
  NF_INET.FORWARD,
  NF_INET.LOCAL_OUT,
  NF_INET.POST_ROUTING,
] as const;

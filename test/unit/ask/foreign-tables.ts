/** Tables of nf_tables that another program could have made. */
import { NF_INET } from '../../../src/kernel/nft/constants.ts';
import {
  compileRule,
  matchCIDR,
  matchProtocol,
  type Statement,
} from '../../../src/kernel/nft/rule.ts';
import { nftOps } from '../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../src/kernel/records.ts';
import { parseCIDR } from '../../../src/net/address.ts';

export interface Chain {
  readonly hook?: number;
  readonly priority?: number;
  readonly type?: string;
  readonly policy?: number;
  readonly rules: readonly (readonly Statement[])[];
}

export const at = { family: 2, table: 'guard' } as const;
const { FORWARD, LOCAL_OUT, PRE_ROUTING } = NF_INET;

export const to = (cidr: string): Statement => matchCIDR('daddr', '==', parseCIDR(cidr)!);
export const from = (cidr: string): Statement => matchCIDR('saddr', '==', parseCIDR(cidr)!);
export const tcp = matchProtocol('TCP');
export const accept: Statement = (out) => out.write('immediateVerdict', { code: 1, chain: '' });
export const target = (name: string, flags = 0): Statement => {
  const info = new Uint8Array(72);
  info[0] = flags;
  return (out) => out.write('target', { name, revision: 2, info });
};

export const clusterIP = '10.96.0.1/32';
export const endpoint = '10.244.0.5/32';
export const early = { hook: PRE_ROUTING, priority: -300 } as const;
export const ofNode = { hook: LOCAL_OUT, priority: -300 } as const;
export const forward = { hook: FORWARD } as const;

export function table(chains: Readonly<Record<string, Chain>>): Uint8Array {
  const out = new RecordWriter(nftOps);
  out.write('tableAdd', { ...at, comment: '' });
  for (const [chain, { hook, policy = 1, priority = 0, type = 'filter' }] of Object.entries(
    chains,
  )) {
    const named = { ...at, chain, comment: '' };
    if (hook === undefined) out.write('chainAdd', named);
    else out.write('baseChainAdd', { ...named, hook, policy, priority, type });
  }
  for (const [chain, { rules }] of Object.entries(chains)) {
    for (const rule of rules) {
      out.write('ruleAdd', { ...at, chain, expressions: compileRule(rule), comment: '' });
    }
  }
  return out.finish();
}

/** What kube-proxy and others write into the fake kernel. */
import { NF_INET, NFPROTO, VERDICT } from '../../../src/kernel/nft/constants.ts';
import { expressions, nftOps } from '../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../src/kernel/records.ts';
import type { FakeKernel } from '../../fake/kernel.ts';

export const svc = 'KUBE-SVC-XPGD46QRK7WJZT7O';
export const sep = 'KUBE-SEP-SXIVWICOYRO3J4NJ';

/** Chains of a table by name; each rule is the chain that it jumps to, or '' for a plain one. */
export type Rules = Readonly<Record<string, readonly string[]>>;

const builtIn: Readonly<Record<string, number>> = {
  PREROUTING: NF_INET.PRE_ROUTING,
  INPUT: NF_INET.LOCAL_IN,
  FORWARD: NF_INET.FORWARD,
  OUTPUT: NF_INET.LOCAL_OUT,
  POSTROUTING: NF_INET.POST_ROUTING,
};

export const kubeProxy: Rules = {
  PREROUTING: ['KUBE-SERVICES'],
  OUTPUT: ['KUBE-SERVICES'],
  POSTROUTING: ['KUBE-POSTROUTING'],
  'KUBE-SERVICES': [svc],
  'KUBE-POSTROUTING': [''],
  'KUBE-MARK-MASQ': [''],
  [svc]: [sep],
  [sep]: ['KUBE-MARK-MASQ', ''],
};

export function merge(...all: readonly Rules[]): Rules {
  const merged: Record<string, string[]> = {};
  for (const rules of all) {
    for (const [chain, targets] of Object.entries(rules)) {
      merged[chain] = [...(merged[chain] ?? []), ...targets];
    }
  }
  return merged;
}

/** Writes as another program would. */
export function write(
  kernel: FakeKernel,
  table: string,
  rules: Rules,
  family: number = NFPROTO.IPv4,
): void {
  const writer = new RecordWriter(nftOps);
  const at = { family, table };
  writer.write('tableAdd', { ...at, comment: '' });
  for (const chain of Object.keys(rules)) {
    const hook = builtIn[chain];
    const fields = { ...at, chain, comment: '' };
    if (hook === undefined) writer.write('chainAdd', fields);
    else writer.write('baseChainAdd', { ...fields, type: 'filter', hook, priority: 0, policy: 1 });
  }
  for (const [chain, targets] of Object.entries(rules)) {
    for (const target of targets) {
      const rule = new RecordWriter(expressions);
      rule.write('counter', {});
      const code = target === '' ? VERDICT.accept : VERDICT.jump;
      rule.write('immediateVerdict', { code, chain: target });
      writer.write('ruleAdd', { ...at, chain, expressions: rule.finish(), comment: '' });
    }
  }
  kernel.foreign(writer.finish());
}

/**
 * Asks the kernel whether it knows the matches and targets that this mode's rules have: all are put
 * into one transaction whose last op must fail, so that the kernel judges it and keeps nothing.
 */
import { KernelError } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { compileRule } from '../../kernel/xt/compile.ts';
import { localAddress } from '../../kernel/xt/matches/addrtype.ts';
import { comment } from '../../kernel/xt/matches/comment.ts';
import { ctState } from '../../kernel/xt/matches/conntrack.ts';
import { recentSet } from '../../kernel/xt/matches/recent.ts';
import { oneOf } from '../../kernel/xt/matches/statistic.ts';
import type { XtRule } from '../../kernel/xt/rule.ts';
import { writeTable } from '../../kernel/xt/tables.ts';
import { dnat } from '../../kernel/xt/targets/dnat.ts';
import { orMark } from '../../kernel/xt/targets/mark.ts';
import { masquerade } from '../../kernel/xt/targets/masquerade.ts';
import { reject } from '../../kernel/xt/targets/reject.ts';
import type { MissingFeature } from '../mode.ts';

const family = 'IPv4';
const address = { family, bytes: Uint8Array.of(127, 0, 0, 1) } as const;

interface RuleProbe extends MissingFeature {
  readonly table: 'nat' | 'filter';
  readonly rule: XtRule;
}

function advice(option: string, module: string): string {
  return `load module ${module} (kernel option CONFIG_${option})`;
}

function match(name: string, rule: Required<Pick<XtRule, 'matches'>>): RuleProbe {
  const help = advice(`NETFILTER_XT_MATCH_${name.toUpperCase()}`, `nft_compat and xt_${name}`);
  return { feature: `iptables match ${name}`, advice: help, table: 'filter', rule };
}

const probes: readonly RuleProbe[] = [
  match('comment', { matches: [comment('probe')] }),
  match('conntrack', { matches: [ctState(['NEW'])] }),
  match('addrtype', { matches: [localAddress('destination')] }),
  match('statistic', { matches: [oneOf(2)] }),
  match('recent', { matches: [recentSet(`KUBE-PROBE-${process.pid}`)] }),
  {
    feature: 'iptables target MARK',
    advice: advice('NETFILTER_XT_TARGET_MARK', 'nft_compat and xt_mark'),
    table: 'nat',
    rule: { target: orMark(1) },
  },
  {
    feature: 'iptables target DNAT',
    advice: advice('NETFILTER_XT_NAT', 'nft_compat and xt_nat'),
    table: 'nat',
    rule: { protocol: 'TCP', target: dnat(address, 1) },
  },
  {
    feature: 'iptables target MASQUERADE',
    advice: advice('NETFILTER_XT_TARGET_MASQUERADE', 'nft_compat and xt_MASQUERADE'),
    table: 'nat',
    rule: { target: masquerade },
  },
  {
    feature: 'iptables target REJECT',
    advice: advice('IP_NF_TARGET_REJECT', 'nft_compat and ipt_REJECT'),
    table: 'filter',
    rule: { target: reject },
  },
];

/** Every op of the probe with what its refusal means; the last op is refused by every kernel. */
function probeBatch(): { ops: Uint8Array; features: (MissingFeature | undefined)[] } {
  const writer = new RecordWriter(nftOps);
  const features: (MissingFeature | undefined)[] = [];
  const nfTables = { feature: 'nf_tables', advice: advice('NF_TABLES', 'nf_tables') };
  const chain = `KUBE-PROBE-${process.pid}`;
  for (const table of ['nat', 'filter'] as const) {
    features[writer.count] = nfTables;
    writeTable(writer, family, table);
    writer.write('chainAdd', { family: NFPROTO[family], table, chain, comment: '' });
  }
  for (const { table, rule, ...missing } of probes) {
    const inChain = { family: NFPROTO[family], table, chain };
    const fields = { ...inChain, position: 0, echo: 0, ...compileRule(family, rule) };
    features[writer.write('xtRuleAdd', fields)] = missing;
  }
  writer.write('chainDelete', { family: NFPROTO[family], table: 'nat', chain: 'never-made' });
  return { ops: writer.finish(), features };
}

/**
 * What the kernel lacks; empty = nothing. Throws KernelError (EPERM) without CAP_NET_ADMIN in the
 * network namespace's user namespace.
 */
export async function probe(kernel: Kernel): Promise<readonly MissingFeature[]> {
  const { ops, features } = probeBatch();
  const result = await kernel.apply(ops);
  if (result.kind === 'applied') throw new Error('the kernel accepted the deletion of no chain');
  const denied = result.failures.find(({ code }) => code === 'EPERM' || code === 'EACCES');
  if (denied !== undefined) {
    const { code, message } = denied;
    const operation = 'iptables.probe';
    throw new KernelError({ operation, subject: 'nf_tables', code, words: message });
  }
  const missing: MissingFeature[] = [];
  for (const { op, code } of result.failures) {
    const feature = op === undefined ? undefined : features[op];
    if (feature === undefined || missing.includes(feature)) continue;
    missing.push({ ...feature, feature: `${feature.feature} (${code})` });
  }
  return missing;
}

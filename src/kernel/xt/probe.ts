/**
 * Asks the kernel for what rules of iptables need: everything is put into one transaction whose
 * last op must fail, so that the kernel judges all of it and keeps nothing. The tables bear their
 * real names, since targets are bound to them; that they exist does not matter.
 */
import { Address, type Family } from '../../net/address.ts';
import { type Protocol, protocols } from '../../net/protocol.ts';
import type { Kernel } from '../kernel.ts';
import { NFPROTO } from '../nft/constants.ts';
import { type MissingFeature, probeTransaction } from '../nft/probe.ts';
import { nftOps } from '../ops.ts';
import { RecordWriter } from '../records.ts';
import { compileRule } from './compile.ts';
import { localAddress } from './matches/addrtype.ts';
import { comment } from './matches/comment.ts';
import { ctState } from './matches/conntrack.ts';
import { anyPort } from './matches/port.ts';
import { recentSet } from './matches/recent.ts';
import { oneOf } from './matches/statistic.ts';
import type { XtRule } from './rule.ts';
import { type BuiltInChain, writeBuiltInChain, writeTable, type XtTable } from './tables.ts';
import { dnat } from './targets/dnat.ts';
import { orMark } from './targets/mark.ts';
import { masquerade } from './targets/masquerade.ts';
import { reject } from './targets/reject.ts';

/** A rule, and what the kernel lacks when it refuses the rule. */
interface Question extends MissingFeature {
  readonly table: XtTable;
  readonly rule: XtRule;
}

export function question(feature: string, module: string, table: XtTable, rule: XtRule): Question {
  return { feature, advice: `load modules nft_compat and ${module}`, table, rule };
}

export function portQuestion(protocol: Protocol): Question {
  const name = protocol.toLowerCase();
  const module = protocol === 'SCTP' ? 'xt_sctp' : 'xt_tcpudp';
  return question(`iptables match ${name}`, module, 'filter', { protocol, matches: [anyPort] });
}

export const commentQuestion: Question = question(
  'iptables match comment',
  'xt_comment',
  'filter',
  {
    matches: [comment('x')],
  },
);
export const stateQuestion: Question = question(
  'iptables match conntrack',
  'xt_conntrack',
  'filter',
  { matches: [ctState(['NEW'])] },
);

function questions(family: Family): Question[] {
  const bytes = new Uint8Array(family === 'IPv4' ? 4 : 16).fill(1);
  const rejectModule = family === 'IPv4' ? 'ipt_REJECT' : 'ip6t_REJECT';
  return [
    commentQuestion,
    stateQuestion,
    question('iptables match addrtype', 'xt_addrtype', 'filter', {
      matches: [localAddress('source')],
    }),
    question('iptables match statistic', 'xt_statistic', 'filter', { matches: [oneOf(2)] }),
    question('iptables match recent', 'xt_recent', 'filter', {
      matches: [recentSet('fairlead-probe')],
    }),
    ...protocols.map(portQuestion),
    question('iptables target REJECT', rejectModule, 'filter', { target: reject }),
    question('iptables target MARK', 'xt_mark', 'nat', { target: orMark(1) }),
    question('iptables target MASQUERADE', 'xt_MASQUERADE', 'nat', { target: masquerade }),
    question('iptables target DNAT', 'xt_nat', 'nat', {
      protocol: 'TCP',
      target: dnat(Address.from(bytes), 1),
    }),
  ];
}

const builtIns = [
  ['nat', 'PREROUTING'],
  ['filter', 'INPUT'],
  ['mangle', 'OUTPUT'],
] as const satisfies readonly (readonly [XtTable, BuiltInChain])[];

const chain = 'FAIRLEAD-PROBE';

/** The batch, and by the index of each op what its refusal means. */
function probeBatch(family: Family, asked: readonly Question[]) {
  const out = new RecordWriter(nftOps);
  const meanings: (MissingFeature | undefined)[] = [];
  const means = (feature: string, advice: string): void => {
    meanings[out.count] = { feature, advice };
  };
  for (const [table, builtIn] of builtIns) {
    means('nf_tables', 'load module nf_tables');
    writeTable(out, family, table);
    means(`${table} chain ${builtIn}`, `see what else made it: nft list table ip ${table}`);
    writeBuiltInChain(out, family, table, builtIn);
    out.write('chainAdd', { family: NFPROTO[family], table, chain, comment: '' });
  }
  for (const { feature, advice, table, rule } of asked) {
    means(feature, advice);
    const inChain = { family: NFPROTO[family], table, chain };
    out.write('xtRuleAdd', { ...inChain, position: 0, echo: 0, ...compileRule(family, rule) });
  }
  return { ops: out.finish(), meanings };
}

/**
 * What the kernel lacks for rules of iptables: for all that the mode has, or for those that are
 * asked about; empty = nothing. Throws KernelError (EPERM) without
 * CAP_NET_ADMIN in the network namespace's user namespace.
 */
export async function missingExtensions(
  kernel: Kernel,
  family: Family,
  asked: readonly Question[] = questions(family),
): Promise<readonly MissingFeature[]> {
  const { ops, meanings } = probeBatch(family, asked);
  return probeTransaction(kernel, ops, meanings);
}

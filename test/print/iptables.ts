/** Ops on the tables of iptables as commands of iptables(8), for people and golden files. */
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
import { type NftOp, nftOps } from '../../src/kernel/ops.ts';
import { readRecords } from '../../src/kernel/records.ts';
import { readRule } from '../../src/kernel/xt/compile.ts';
import { printRule } from '../../src/kernel/xt/print.ts';

type XtRuleOp = Extract<NftOp, { kind: 'xtRuleAdd' | 'xtRuleInsert' }>;

/** One command a line, in the order of the ops. Throws RangeError for ops on sets. */
export function printXtOps(ops: Uint8Array): string {
  return [...readRecords(nftOps, ops)].map((op) => `${printOp(op)}\n`).join('');
}

function printOp(op: NftOp): string {
  switch (op.kind) {
    case 'tableAdd':
      return `# make ${at(op)}`;
    case 'tableDelete':
      return `# delete ${at(op)}`;
    case 'chainAdd':
      return `${at(op)} -N ${op.chain}`;
    case 'baseChainAdd':
      return `# make ${at(op)} ${op.chain}`;
    case 'chainDelete':
      return `${at(op)} -X ${op.chain}`;
    case 'chainFlush':
      return `${at(op)} -F ${op.chain}`;
    case 'ruleDelete':
      return `${at(op)} -D ${op.chain} # handle ${op.handle}`;
    case 'xtRuleAdd':
      return command(op, '-A', op.position === 0 ? '' : ` # behind handle ${op.position}`);
    case 'xtRuleInsert':
      return command(op, '-I', op.position === 0 ? '' : ` # before handle ${op.position}`);
    default:
      throw new RangeError(`${op.kind} is not an op on the tables of iptables`);
  }
}

function at({ family, table }: { readonly family: number; readonly table: string }): string {
  return `${family === NFPROTO.IPv4 ? 'iptables' : 'ip6tables'} -t ${table}`;
}

function command(op: XtRuleOp, option: string, remark: string): string {
  return `${at(op)} ${option} ${op.chain}${rest(op)}${remark}`;
}

function rest({ family, expressions }: XtRuleOp): string {
  const known = family === NFPROTO.IPv4 ? 'IPv4' : 'IPv6';
  const rule = readRule(known, expressions);
  if (rule === undefined) throw new RangeError('a rule that is none of iptables');
  const words = printRule(known, rule);
  return words === '' ? '' : ` ${words}`;
}

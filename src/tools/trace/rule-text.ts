/** Rules that packets have matched, as text: their position and contents. */
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { printRule } from '../../kernel/nft/print-rule.ts';
import { familyWord } from '../../kernel/nft/words.ts';
import { readRule } from '../../kernel/xt/compile.ts';
import { printRule as printXtRule } from '../../kernel/xt/print.ts';
import type { TraceEvent } from './headers.ts';
import type { Rule } from './ruleset.ts';

/** `inet firewalld filter_FORWARD` */
export function nameOf({
  chain,
  family,
  table,
}: Pick<TraceEvent, 'chain' | 'family' | 'table'>): string {
  return `${familyWord(family)} ${table} ${chain}`;
}

/** `rule 12 of chain inet firewalld filter_FORWARD: tcp dport 8080 drop` */
export function placeOfRule(event: TraceEvent, rule: Rule | undefined): string {
  const text = rule === undefined ? '' : textOf(event.family, rule);
  const comment = rule === undefined || rule.comment === '' ? '' : ` "${rule.comment}"`;
  const place = `rule ${event.rule} of chain ${nameOf(event)}`;
  return text === '' ? place : `${place}: ${text}${comment}`;
}

/** In the syntax of nft, or of iptables for its rules. */
export function textOf(family: number, { bytes, expressions }: Rule): string {
  const isXt = expressions.some(({ kind }) => kind === 'match' || kind === 'target');
  const of = family === NFPROTO.IPv6 ? 'IPv6' : 'IPv4';
  const xt = isXt ? readRule(of, bytes) : undefined;
  return xt === undefined ? printRule(family, bytes) : printXtRule(of, xt);
}

/** Whether it answers with an error, which the kernel reports as a drop. */
export function refuses(rule: Rule | undefined): boolean {
  return (
    rule?.expressions.some(
      (one) => one.kind === 'reject' || (one.kind === 'target' && one.name === 'REJECT'),
    ) ?? false
  );
}

/** Rules of any program as text, in the syntax of nft, or of iptables for its rules. */
import { readClauses } from './nft/clauses.ts';
import { NFPROTO } from './nft/constants.ts';
import { printRule } from './nft/print-rule.ts';
import { familyWord } from './nft/words.ts';
import { readRule } from './xt/compile.ts';
import { printRule as printXtRule } from './xt/print.ts';

/** `inet firewalld filter_FORWARD`; `family` is NFPROTO_*. */
export function chainText({
  chain,
  family,
  table,
}: {
  readonly family: number;
  readonly table: string;
  readonly chain: string;
}): string {
  return `${familyWord(family)} ${table} ${chain}`;
}

/** `tcp dport 8080 drop`; `family` is NFPROTO_* of the table, `bytes` records of `expressions`. */
export function ruleText(family: number, bytes: Uint8Array): string {
  const isXt = readClauses(bytes).some(({ kind }) => kind === 'match' || kind === 'target');
  const of = family === NFPROTO.IPv6 ? 'IPv6' : 'IPv4';
  const xt = isXt ? readRule(of, bytes) : undefined;
  return xt === undefined ? printRule(family, bytes) : printXtRule(of, xt);
}

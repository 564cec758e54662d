/** Rules as iptables-save (1.8.9) prints them. */
import { type Family, formatCIDR } from '../../net/address.ts';
import type { Context, Operator } from './codec.ts';
import { matchCodec, targetCodec } from './codecs.ts';
import type { XtRule } from './rule.ts';

/** What follows `-A CHAIN `; empty for a rule that matches everything and only counts. */
export function printRule(family: Family, rule: XtRule): string {
  const { source, destination, inputInterface, protocol, matches, target } = rule;
  const context: Context = { family, protocol };
  const words: string[] = [];
  const add = (option: string, operator: Operator, value: string): number =>
    words.push(`${operator === '!=' ? '! ' : ''}${option} ${value}`);
  for (const [option, address] of [
    ['-s', source],
    ['-d', destination],
  ] as const) {
    if (address === undefined || address.cidr.prefixLength === 0) continue;
    add(option, address.operator, formatCIDR(address.cidr));
  }
  if (inputInterface !== undefined) add('-i', inputInterface.operator, inputInterface.name);
  if (protocol !== undefined) add('-p', '==', protocol.toLowerCase());
  for (const match of matches ?? []) words.push(matchCodec(match).print(match, context));
  if (target !== undefined) words.push(targetCodec(target).print(target, context));
  return words.join(' ');
}

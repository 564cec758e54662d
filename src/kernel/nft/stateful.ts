/** Statements that keep a state: of a rule, or of each element of a set (`SetDefinition`). */
import { NFT_CONNLIMIT_F_INV, NFT_LIMIT_F_INV } from './constants.ts';
import type { Statement } from './rule.ts';

/** `counter` */
export const counter: Statement = (out) => {
  out.write('counter', {});
};

/** `ct count over N`: the packet's connection is another one than the first N. */
export function connectionsOver(count: number): Statement {
  return (out) => void out.write('connlimit', { count, flags: NFT_CONNLIMIT_F_INV });
}

/** `limit rate over N/second burst N packets`, or over N/minute */
export function rateOver(
  rate: number,
  burst = rate,
  per: 'second' | 'minute' = 'second',
): Statement {
  const unit = per === 'second' ? 1 : 60;
  return (out) => void out.write('limit', { rate, unit, burst, type: 0, flags: NFT_LIMIT_F_INV });
}

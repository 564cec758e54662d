/** `-j CHAIN`, `-g CHAIN`, `-j ACCEPT`, `DROP`, `RETURN`: immediate verdicts. */
import { VERDICT } from '../../nft/constants.ts';
import type { Codec, Cursor } from '../codec.ts';

export interface JumpTarget {
  readonly kind: 'jump';
  readonly chain: string;
  /** Packets do not come back from the chain. */
  readonly isGoto?: true | undefined;
}

export interface VerdictTarget {
  readonly kind: 'accept' | 'drop' | 'return';
}

export function jump(chain: string, isGoto?: true): JumpTarget {
  return { kind: 'jump', chain, ...(isGoto && { isGoto }) };
}

export const accept: VerdictTarget = { kind: 'accept' };
export const drop: VerdictTarget = { kind: 'drop' };
export const returnToCaller: VerdictTarget = { kind: 'return' };

export const jumpCodec: Codec<JumpTarget> = {
  write: ({ chain, isGoto }, out) => {
    out.write('immediateVerdict', { code: isGoto ? VERDICT.goto : VERDICT.jump, chain });
  },
  print: ({ chain, isGoto }) => `-${isGoto ? 'g' : 'j'} ${chain}`,
};

export const verdictCodec: Codec<VerdictTarget> = {
  write: ({ kind }, out) => void out.write('immediateVerdict', { code: VERDICT[kind], chain: '' }),
  print: ({ kind }) => `-j ${kind.toUpperCase()}`,
};

export function readVerdict(cursor: Cursor): JumpTarget | VerdictTarget | undefined {
  const verdict = cursor.take('immediateVerdict');
  switch (verdict?.code) {
    case VERDICT.jump:
      return jump(verdict.chain);
    case VERDICT.goto:
      return jump(verdict.chain, true);
    case VERDICT.accept:
      return accept;
    case VERDICT.drop:
      return drop;
    case VERDICT.return:
      return returnToCaller;
    default:
      return undefined;
  }
}

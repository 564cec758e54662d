/** `-j CHAIN`, `-j ACCEPT`, `DROP`, `RETURN`: immediate verdicts. */
import { VERDICT } from '../../nft/constants.ts';
import type { Codec, Cursor } from '../codec.ts';

export interface JumpTarget {
  readonly kind: 'jump';
  readonly chain: string;
}

export interface VerdictTarget {
  readonly kind: 'accept' | 'drop' | 'return';
}

export function jump(chain: string): JumpTarget {
  return { kind: 'jump', chain };
}

export const accept: VerdictTarget = { kind: 'accept' };
export const drop: VerdictTarget = { kind: 'drop' };
export const returnToCaller: VerdictTarget = { kind: 'return' };

export const jumpCodec: Codec<JumpTarget> = {
  write: ({ chain }, out) => void out.write('immediateVerdict', { code: VERDICT.jump, chain }),
  print: ({ chain }) => `-j ${chain}`,
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

/** `-m mark [!] --mark VALUE/MASK`: native expressions. */
import { NFT_CMP, NFT_META, NFT_REG_1 } from '../../nft/constants.ts';
import { type Codec, type Cursor, type Operator, viewOf } from '../codec.ts';

export interface MarkMatch {
  readonly kind: 'mark';
  readonly operator: Operator;
  readonly value: number;
  readonly mask: number;
}

export function markIs(bits: number, operator: Operator = '=='): MarkMatch {
  return { kind: 'mark', operator, value: bits, mask: bits };
}

function word(value: number): Uint8Array {
  return new Uint8Array(Uint32Array.of(value).buffer);
}

export const markCodec: Codec<MarkMatch> = {
  write({ operator, value, mask }, out) {
    const register = NFT_REG_1;
    out.write('metaLoad', { register, key: NFT_META.MARK });
    out.write('bitwise', {
      source: register,
      destination: register,
      length: 4,
      mask: word(mask),
      xor: word(0),
    });
    const operation = NFT_CMP[operator === '==' ? 'EQ' : 'NEQ'];
    out.write('cmp', { register, operation, data: word(value) });
  },
  print({ operator, value, mask }) {
    const not = operator === '!=' ? '! ' : '';
    return `-m mark ${not}--mark 0x${value.toString(16)}/0x${mask.toString(16)}`;
  },
};

export function readMark(cursor: Cursor): MarkMatch | undefined {
  if (cursor.take('metaLoad')?.key !== NFT_META.MARK) return undefined;
  const bitwise = cursor.take('bitwise');
  const cmp = cursor.take('cmp');
  if (bitwise?.length !== 4 || cmp?.data.length !== 4) return undefined;
  return {
    kind: 'mark',
    operator: cmp.operation === NFT_CMP.EQ ? '==' : '!=',
    value: viewOf(cmp.data).getUint32(0, true),
    mask: viewOf(bitwise.mask).getUint32(0, true),
  };
}

/** `-j MARK --set-xmark VALUE/MASK` (struct xt_mark_tginfo2). */
import { type Codec, structure, viewOf } from '../codec.ts';

/** mark = (mark & ~mask) ^ value */
export interface MarkTarget {
  readonly kind: 'mark';
  readonly value: number;
  readonly mask: number;
}

const name = 'MARK';
const revision = 2;

/** `--or-mark` */
export function orMark(bits: number): MarkTarget {
  return { kind: 'mark', value: bits, mask: bits };
}

/** `--xor-mark` */
export function xorMark(bits: number): MarkTarget {
  return { kind: 'mark', value: bits, mask: 0 };
}

export const markTargetCodec: Codec<MarkTarget> = {
  write({ value, mask }, out) {
    const { info, view } = structure(8);
    view.setUint32(0, value, true);
    view.setUint32(4, mask, true);
    out.write('target', { name, revision, info });
  },
  print: ({ value, mask }) => `-j MARK --set-xmark 0x${value.toString(16)}/0x${mask.toString(16)}`,
};

export function readMarkTarget(info: Uint8Array): MarkTarget {
  const view = viewOf(info);
  return { kind: 'mark', value: view.getUint32(0, true), mask: view.getUint32(4, true) };
}

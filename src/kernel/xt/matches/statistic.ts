/** `-m statistic --mode random --probability P` (struct xt_statistic_info). */
import { type Codec, structure, viewOf } from '../codec.ts';

export interface StatisticMatch {
  readonly kind: 'statistic';
  /** In units of 2^-31, as the kernel compares it. */
  readonly probability: number;
}

const name = 'statistic';
const revision = 0;
/** The mode `random` is 0. */
const at = { probability: 4, count: 12, end: 24 } as const;
const one = 0x80000000;

/**
 * One packet of `n`. kube-proxy hands iptables ten decimals of 1/n, and so do we: the kernel's
 * number is the same.
 */
export function oneOf(n: number): StatisticMatch {
  return { kind: 'statistic', probability: Math.round(Number((1 / n).toFixed(10)) * one) };
}

export const statisticCodec: Codec<StatisticMatch> = {
  write({ probability }, out) {
    const { info, view } = structure(at.end);
    view.setUint32(at.probability, probability, true);
    // iptables sets the counter of the mode `nth` in every mode, and the kernel keeps it.
    view.setUint32(at.count, probability, true);
    out.write('match', { name, revision, info });
  },
  print: ({ probability }) =>
    `-m statistic --mode random --probability ${(probability / one).toFixed(11)}`,
};

export function readStatistic(info: Uint8Array): StatisticMatch {
  return { kind: 'statistic', probability: viewOf(info).getUint32(at.probability, true) };
}

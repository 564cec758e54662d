/** `-j REJECT`: ICMP port unreachable, or a reset (struct ipt_reject_info, ip6t_reject_info). */
import type { Family } from '../../../net/address.ts';
import { type Codec, structure, viewOf } from '../codec.ts';

export interface RejectTarget {
  readonly kind: 'reject';
  /** Needs a rule for TCP. */
  readonly reset?: true;
}

const name = 'REJECT';
const revision = 0;
/** IPT_ICMP_PORT_UNREACHABLE, IP6T_ICMP6_PORT_UNREACH */
const portUnreachable = { IPv4: 3, IPv6: 4 } as const;
/** IPT_TCP_RESET, IP6T_TCP_RESET */
const tcpReset = { IPv4: 7, IPv6: 6 } as const;

export const reject: RejectTarget = { kind: 'reject' };

/** `-j REJECT --reject-with tcp-reset` */
export const rejectByReset: RejectTarget = { kind: 'reject', reset: true };

export const rejectCodec: Codec<RejectTarget> = {
  write({ reset = false }, out, { family }) {
    const { info, view } = structure(4);
    view.setUint32(0, (reset ? tcpReset : portUnreachable)[family], true);
    out.write('target', { name, revision, info });
  },
  print({ reset = false }, { family }) {
    const icmp = `icmp${family === 'IPv4' ? '' : '6'}-port-unreachable`;
    return `-j REJECT --reject-with ${reset ? 'tcp-reset' : icmp}`;
  },
};

export function readReject(info: Uint8Array, family: Family): RejectTarget {
  return viewOf(info).getUint32(0, true) === tcpReset[family] ? rejectByReset : reject;
}

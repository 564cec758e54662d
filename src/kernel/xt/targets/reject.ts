/** `-j REJECT`: ICMP port unreachable (struct ipt_reject_info, ip6t_reject_info). */
import { type Codec, structure } from '../codec.ts';

export interface RejectTarget {
  readonly kind: 'reject';
}

const name = 'REJECT';
const revision = 0;
/** IPT_ICMP_PORT_UNREACHABLE, IP6T_ICMP6_PORT_UNREACH */
const portUnreachable = { IPv4: 3, IPv6: 4 } as const;

export const reject: RejectTarget = { kind: 'reject' };

export const rejectCodec: Codec<RejectTarget> = {
  write(_, out, { family }) {
    const { info, view } = structure(4);
    view.setUint32(0, portUnreachable[family], true);
    out.write('target', { name, revision, info });
  },
  print: (_, { family }) =>
    `-j REJECT --reject-with icmp${family === 'IPv4' ? '' : '6'}-port-unreachable`,
};

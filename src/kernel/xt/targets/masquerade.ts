/**
 * `-j MASQUERADE --random-fully`. The structures of the families differ: IPv4 has a list of one
 * range (struct nf_nat_ipv4_multi_range_compat), IPv6 a range (struct nf_nat_range).
 */
import { NF_NAT_RANGE } from '../../nft/constants.ts';
import { type Codec, structure } from '../codec.ts';

export interface MasqueradeTarget {
  readonly kind: 'masquerade';
}

const name = 'MASQUERADE';
const revision = 0;

export const masquerade: MasqueradeTarget = { kind: 'masquerade' };

export const masqueradeCodec: Codec<MasqueradeTarget> = {
  write(_, out, { family }) {
    const { info, view } = structure(family === 'IPv4' ? 20 : 40);
    if (family === 'IPv4') view.setUint32(0, 1, true);
    view.setUint32(family === 'IPv4' ? 4 : 0, NF_NAT_RANGE.PROTO_RANDOM_FULLY, true);
    out.write('target', { name, revision, info });
  },
  print: () => '-j MASQUERADE --random-fully',
};

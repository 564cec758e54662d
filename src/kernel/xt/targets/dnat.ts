/** `-j DNAT --to-destination ADDRESS:PORT` (struct nf_nat_range2). */
import { Address, addressBytes, type Family, formatEndpoint } from '../../../net/address.ts';
import { NF_NAT_RANGE } from '../../nft/constants.ts';
import { type Codec, structure, viewOf } from '../codec.ts';

export interface DNATTarget {
  readonly kind: 'dnat';
  readonly address: Address;
  readonly port: number;
}

const name = 'DNAT';
const revision = 2;
/** From and to are the same. Ports are in network order. */
const at = { flags: 0, addressMin: 4, addressMax: 20, portMin: 36, portMax: 38, end: 44 } as const;

export function dnat(address: Address, port: number): DNATTarget {
  return { kind: 'dnat', address, port };
}

export const dnatCodec: Codec<DNATTarget> = {
  write({ address, port }, out) {
    const { info, view } = structure(at.end);
    view.setUint32(at.flags, NF_NAT_RANGE.MAP_IPS | NF_NAT_RANGE.PROTO_SPECIFIED, true);
    address.copy(info, at.addressMin);
    address.copy(info, at.addressMax);
    view.setUint16(at.portMin, port);
    view.setUint16(at.portMax, port);
    out.write('target', { name, revision, info });
  },
  print({ address, port }) {
    return `-j DNAT --to-destination ${formatEndpoint(address.bytes, port)}`;
  },
};

export function readDNAT(info: Uint8Array, family: Family): DNATTarget {
  const bytes = info.slice(at.addressMin, at.addressMin + addressBytes[family]);
  return dnat(Address.from(bytes), viewOf(info).getUint16(at.portMin));
}

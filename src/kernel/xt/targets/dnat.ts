/** `-j DNAT --to-destination ADDRESS[:PORT]` (struct nf_nat_range2). */
import {
  Address,
  addressBytes,
  type Family,
  formatAddress,
  formatEndpoint,
} from '../../../net/address.ts';
import { NF_NAT_RANGE } from '../../nft/constants.ts';
import { type Codec, structure, viewOf } from '../codec.ts';

export interface DNATTarget {
  readonly kind: 'dnat';
  readonly address: Address;
  /** Undefined: it stays as it is. */
  readonly port: number | undefined;
}

const name = 'DNAT';
const revision = 2;
/** From and to are the same. Ports are in network order. */
const at = { flags: 0, addressMin: 4, addressMax: 20, portMin: 36, portMax: 38, end: 44 } as const;

export function dnat(address: Address, port: number | undefined): DNATTarget {
  return { kind: 'dnat', address, port };
}

export const dnatCodec: Codec<DNATTarget> = {
  write({ address, port }, out) {
    const { info, view } = structure(at.end);
    const flags = NF_NAT_RANGE.MAP_IPS | (port === undefined ? 0 : NF_NAT_RANGE.PROTO_SPECIFIED);
    view.setUint32(at.flags, flags, true);
    address.copy(info, at.addressMin);
    address.copy(info, at.addressMax);
    view.setUint16(at.portMin, port ?? 0);
    view.setUint16(at.portMax, port ?? 0);
    out.write('target', { name, revision, info });
  },
  print({ address, port }) {
    const { bytes } = address;
    const to = port === undefined ? formatAddress(bytes) : formatEndpoint(bytes, port);
    return `-j DNAT --to-destination ${to}`;
  },
};

export function readDNAT(info: Uint8Array, family: Family): DNATTarget {
  const bytes = info.slice(at.addressMin, at.addressMin + addressBytes[family]);
  const view = viewOf(info);
  const hasPort = (view.getUint32(at.flags, true) & NF_NAT_RANGE.PROTO_SPECIFIED) !== 0;
  return dnat(Address.from(bytes), hasPort ? view.getUint16(at.portMin) : undefined);
}

/** `-m addrtype --src-type LOCAL`, `--dst-type LOCAL` (struct xt_addrtype_info_v1). */
import { type Codec, structure, viewOf } from '../codec.ts';

export interface AddrTypeMatch {
  readonly kind: 'addrtype';
  /** Which address of the packet must be one of this node's. */
  readonly local: 'source' | 'destination';
}

const name = 'addrtype';
const revision = 1;
const at = { source: 0, destination: 2, end: 8 } as const;
const XT_ADDRTYPE_LOCAL = 4;

export function localAddress(local: AddrTypeMatch['local']): AddrTypeMatch {
  return { kind: 'addrtype', local };
}

export const addrTypeCodec: Codec<AddrTypeMatch> = {
  write({ local }, out) {
    const { info, view } = structure(at.end);
    view.setUint16(at[local], XT_ADDRTYPE_LOCAL, true);
    out.write('match', { name, revision, info });
  },
  print: ({ local }) => `-m addrtype --${local === 'source' ? 'src' : 'dst'}-type LOCAL`,
};

export function readAddrType(info: Uint8Array): AddrTypeMatch {
  return localAddress(viewOf(info).getUint16(at.source, true) === 0 ? 'destination' : 'source');
}

/**
 * `-m nfacct --nfacct-name NAME`: counts packets and bytes in an object of the subsystem nfnetlink_acct,
 * which must be there (struct xt_nfacct_match_info_v1).
 */
import { type Codec, putText, structure, textAt } from '../codec.ts';

export interface NfacctMatch {
  readonly kind: 'nfacct';
  /** At most 31 bytes. */
  readonly object: string;
}

const name = 'nfacct';
const revision = 0;
const nameBytes = 32;
/** A pointer of the kernel follows the name. */
const bytes = 40;

export function nfacct(object: string): NfacctMatch {
  return { kind: 'nfacct', object };
}

export const nfacctCodec: Codec<NfacctMatch> = {
  write({ object }, out) {
    const { info } = structure(bytes);
    putText(info, 0, nameBytes, object);
    out.write('match', { name, revision, info });
  },
  print: ({ object }) => `-m nfacct --nfacct-name  ${object}`,
};

export function readNfacct(info: Uint8Array): NfacctMatch {
  return nfacct(textAt(info, 0, nameBytes));
}

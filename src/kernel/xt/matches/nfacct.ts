/** `-m nfacct`: counts what it sees in a named counter (struct xt_nfacct_match_info_v1). */
import { type Codec, putText, structure, textAt } from '../codec.ts';

export interface NfacctMatch {
  readonly kind: 'nfacct';
  /** Name of the counter, which must exist; at most 31 bytes. */
  readonly counter: string;
}

const name = 'nfacct';
const revision = 1;
const nameBytes = 32;
/** With the kernel's own pointer behind the name. */
const bytes = nameBytes + 8;

export function countedIn(counter: string): NfacctMatch {
  return { kind: 'nfacct', counter };
}

export const nfacctCodec: Codec<NfacctMatch> = {
  write({ counter }, out) {
    const { info } = structure(bytes);
    putText(info, 0, nameBytes, counter);
    out.write('match', { name, revision, info });
  },
  // iptables-save puts two blanks there.
  print: ({ counter }) => `-m nfacct --nfacct-name  ${counter}`,
};

export function readNfacct(info: Uint8Array): NfacctMatch {
  return countedIn(textAt(info, 0, nameBytes));
}

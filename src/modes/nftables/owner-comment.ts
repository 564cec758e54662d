/** Comments that say whose frontend an element is. */
import { createHash } from 'node:crypto';
import { formatServicePortName, type ServicePortName } from '../../state/types.ts';

/** nft reads no longer one (NFTNL_UDATA_COMMENT_MAXLEN). */
const lengthMax = 128;

/** What nft prints within quotes and reads again. */
const isQuotable = /^[ !#-~]*$/;
const unquotable = /[^ !#-~]/g;

/**
 * `namespace/name:port`, or `namespace/name` for a port without a name. The API server lets no name
 * have characters that nft cannot read again; those of names from files become question marks. What
 * is too long ends with a hash of the whole: `namespace/na~0123abcd`.
 */
export function ownerComment(servicePort: ServicePortName): string {
  const text = formatServicePortName(servicePort);
  const quotable = isQuotable.test(text) ? text : text.replaceAll(unquotable, '?');
  if (quotable.length <= lengthMax) return quotable;
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 8);
  return `${quotable.slice(0, lengthMax - hash.length - 1)}~${hash}`;
}

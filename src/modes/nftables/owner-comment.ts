/** How names of objects and comments of elements show whose they are. */
import { createHash } from 'node:crypto';
import { formatServicePortName, type ServicePortName } from '../../state/types.ts';

/** `default/web/tcp/http`, as kube-proxy has it in the names of its objects. */
export function pathOf({ namespace, name, protocol, port }: ServicePortName): string {
  return [namespace, name, protocol.toLowerCase(), port].join('/');
}

/** The longest comment that nft reads (NFTNL_UDATA_COMMENT_MAXLEN). */
const lengthMax = 128;

/** Characters that nft can print within quotes and read again. */
const isQuotable = /^[ !#-~]*$/;
const unquotable = /[^ !#-~]/g;

/**
 * `namespace/name:port`, or `namespace/name` for a port without a name. Names from an API server
 * have only characters that nft can read again. In names from files, others become question marks.
 * A comment that is too long ends with a hash of the whole: `namespace/na~0123abcd`.
 */
export function ownerComment(servicePort: ServicePortName): string {
  const text = formatServicePortName(servicePort);
  const quotable = isQuotable.test(text) ? text : text.replaceAll(unquotable, '?');
  if (quotable.length <= lengthMax) return quotable;
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 8);
  return `${quotable.slice(0, lengthMax - hash.length - 1)}~${hash}`;
}

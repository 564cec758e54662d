import { isKernelError, isNotPermitted } from '../kernel/errors.ts';

/** Error codes of a kernel without nf_tables. */
const noNFTables = ['EPROTONOSUPPORT', 'EAFNOSUPPORT', 'EOPNOTSUPP'];

/** The error that ended the program, in one line: the cause and, if known, the remedy. */
export function describeError(error: unknown): string {
  const text = describe(error);
  return text.replace(/\s*\n\s*/g, ' ').trim();
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (isNotPermitted(error)) {
    return `CAP_NET_ADMIN is needed: run as root or add the capability (${error.message})`;
  }
  if (isKernelError(error) && noNFTables.includes(error.code)) {
    return `this kernel has no nf_tables: load module nf_tables (CONFIG_NF_TABLES) (${error.message})`;
  }
  return error.message;
}

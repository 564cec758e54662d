/** An operation on the kernel that failed: what was tried, on what, and the kernel's words. */
export class KernelError extends Error {
  override readonly name = 'KernelError';
  /** What was tried, e.g. `nft.elements.dump`. */
  readonly operation: string;
  /** On what, e.g. `map endpoints of table ip fairlead`. */
  readonly subject: string;
  /** Symbolic errno, e.g. `EPERM`. */
  readonly code: string;
  /** As in `KernelFailure`. */
  readonly isHeld: boolean;

  constructor(detail: {
    operation: string;
    subject: string;
    code: string;
    words: string;
    isHeld?: boolean;
  }) {
    super(`${detail.operation} ${detail.subject}: ${detail.words} (${detail.code})`);
    this.operation = detail.operation;
    this.subject = detail.subject;
    this.code = detail.code;
    this.isHeld = detail.isHeld ?? false;
  }
}

export function isKernelError(error: unknown, code?: string): error is KernelError {
  return error instanceof KernelError && (code === undefined || error.code === code);
}

export function isNotPermitted(error: unknown): boolean {
  return isKernelError(error, 'EPERM') || isKernelError(error, 'EACCES');
}

/** Codes of a kernel without a protocol, or a family of it. */
const absences: ReadonlySet<string> = new Set(['EPROTONOSUPPORT', 'EAFNOSUPPORT', 'EOPNOTSUPP']);

/**
 * The kernel was built without the part that was asked, so that nothing of it can be there. A
 * subsystem of netfilter that is missing answers EINVAL (nfnetlink_rcv_msg).
 */
export function isAbsence(error: unknown): boolean {
  if (!isKernelError(error)) return false;
  return (
    absences.has(error.code) || (error.code === 'EINVAL' && error.operation.startsWith('nft.'))
  );
}

const passing: ReadonlySet<string> = new Set([
  'ENOMEM',
  'ENOBUFS',
  'EAGAIN',
  'EINTR',
  'EMFILE',
  'ENFILE',
]);

/** The kernel says nothing of what it can do, only that it cannot now. */
export function isPassing(code: string): boolean {
  return passing.has(code);
}

/** The same of a question that makes and deletes things: another thing may be in the way. */
export function isNoAnswer(code: string): boolean {
  return code === 'EBUSY' || isPassing(code);
}

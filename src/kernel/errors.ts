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

/** Codes with which a kernel answers that lacks a protocol, or a family of it. */
const absences: ReadonlySet<string> = new Set(['EPROTONOSUPPORT', 'EAFNOSUPPORT', 'EOPNOTSUPP']);

/**
 * Whether the kernel lacks the part that was asked, so that it can hold nothing. For a missing
 * subsystem of netfilter it answers EINVAL (nfnetlink_rcv_msg).
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

/** Whether the code says only that the kernel cannot do it now. */
export function isPassing(code: string): boolean {
  return passing.has(code);
}

/** The same for a probe that makes and deletes objects: objects of others may be in its way. */
export function isNoAnswer(code: string): boolean {
  return code === 'EBUSY' || isPassing(code);
}

/** The answer, or `instead` where it is an error of this sort. */
export async function orElse<T, U>(
  answer: Promise<T>,
  instead: U,
  isOfSort: (error: unknown) => boolean = isAbsence,
): Promise<T | U> {
  try {
    return await answer;
  } catch (error) {
    if (isOfSort(error)) return instead;
    throw error;
  }
}

/** What was listed; nothing if the kernel lacks the part that was asked. */
export function orNone<T>(listed: Promise<readonly T[]>): Promise<readonly T[]> {
  return orElse(listed, []);
}

/** An op that the fake kernel refuses. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  /** Symbolic errno. */
  readonly code: string;
  /** Index within an elements op. */
  readonly entry: number | undefined;

  constructor(code: string, entry?: number) {
    super(words[code] ?? code);
    this.code = code;
    this.entry = entry;
  }
}

/** strerror(3) */
const words: Readonly<Record<string, string>> = {
  ENOENT: 'No such file or directory',
  ESRCH: 'No such process',
  ENODEV: 'No such device',
  EADDRNOTAVAIL: 'Cannot assign requested address',
  EPROTONOSUPPORT: 'Protocol not supported',
  EEXIST: 'File exists',
  EBUSY: 'Device or resource busy',
  EINVAL: 'Invalid argument',
  ENFILE: 'Too many open files in system',
  ERANGE: 'Numerical result out of range',
  EMLINK: 'Too many links',
  EOPNOTSUPP: 'Operation not supported',
  ERESTART: 'Interrupted system call should be restarted',
  ENOBUFS: 'No buffer space available',
  E2BIG: 'Argument list too long',
  ENOMEM: 'Cannot allocate memory',
};

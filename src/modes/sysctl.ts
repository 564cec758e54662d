/** Settings of the kernel, as modes ask for them. */

/** A kernel setting that a mode or the configuration asks for. */
export interface Sysctl {
  readonly path: string;
  readonly value: string;
  /** A larger number is as good. */
  readonly atLeast?: boolean;
  /** What does not work without the setting, in words that follow `could not`. */
  readonly purpose: string;
  /** What it is for, or which option leaves the setting alone. */
  readonly advice: string;
  /** Log it even when it is right already. */
  readonly reportedWhenRight?: boolean;
}

/** What the kernel settings of a mode depend on. */
export interface SysctlWishes {
  readonly strictARP: boolean;
  /** Node ports answer on IPv4 loopback addresses. */
  readonly localhostNodePorts: boolean;
  /** The kernel's release: `6.12.1`. */
  readonly kernel: string;
}

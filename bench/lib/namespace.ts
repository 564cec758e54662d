import { execFileSync } from 'node:child_process';

/** A network namespace of a benchmark's own; `close` removes it with everything in it. */
export class Namespace {
  readonly name: string;

  constructor(purpose: string) {
    this.name = `fairlead-bench-${process.pid}-${purpose}`;
    execFileSync('ip', ['netns', 'add', this.name]);
  }

  get path(): string {
    return `/run/netns/${this.name}`;
  }

  /** Runs a program inside and returns what it prints. */
  run(
    command: string,
    args: readonly string[],
    input = '',
    errors: 'inherit' | 'ignore' = 'inherit',
  ): string {
    return execFileSync('ip', ['netns', 'exec', this.name, command, ...args], {
      encoding: 'utf8',
      input,
      maxBuffer: 1 << 30,
      stdio: ['pipe', 'pipe', errors],
    });
  }

  close(): void {
    execFileSync('ip', ['netns', 'delete', this.name]);
  }
}

/** Runs `work` in a fresh namespace. */
export async function inNamespace<T>(
  purpose: string,
  work: (namespace: Namespace) => Promise<T> | T,
): Promise<T> {
  const namespace = new Namespace(purpose);
  try {
    return await work(namespace);
  } finally {
    namespace.close();
  }
}

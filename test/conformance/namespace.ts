/** Network namespaces for kernel tests: made for one test, removed whatever happens. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { onTestFinished } from 'vitest';
import type { SocketOptions } from '../../src/kernel/addon.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { openKernel } from '../../src/kernel/native-kernel.ts';

export interface Namespace {
  readonly name: string;
  /** For the option `netns` of `openKernel`. */
  readonly path: string;
  /**
   * Runs a program in the namespace, with `input` on its standard input. Resolves to its output.
   */
  run(program: string, args: readonly string[], input?: string): Promise<string>;
}

/** A new namespace, removed when the test ends. */
export async function createNamespace(): Promise<Namespace> {
  const name = `fairlead-${process.pid}-${randomBytes(4).toString('hex')}`;
  await run('ip', ['netns', 'add', name]);
  onTestFinished(async () => void (await run('ip', ['netns', 'del', name])));
  return {
    name,
    path: `/run/netns/${name}`,
    run: (program, args, input) => run('ip', ['netns', 'exec', name, program, ...args], input),
  };
}

/** The kernel of a new namespace, closed when the test ends. */
export async function createKernel(
  options: Omit<SocketOptions, 'netns'> = {},
): Promise<{ kernel: Kernel; namespace: Namespace }> {
  const namespace = await createNamespace();
  const kernel = openKernel({ ...options, netns: namespace.path });
  onTestFinished(() => kernel.close());
  return { kernel, namespace };
}

function run(program: string, args: readonly string[], input = ''): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { timeout: 30_000, maxBuffer: 256 * 1024 * 1024 };
    const child = execFile(program, args, options, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(new Error(`${program} ${args.join(' ')}: ${stderr || error.message}`));
    });
    // A program that has ended without reading its input is not an error.
    child.stdin?.on('error', () => undefined).end(input);
  });
}

/** Network namespaces for kernel tests: made for one test, removed whatever happens. */
import { randomBytes } from 'node:crypto';
import { onTestFinished } from 'vitest';
import type { SocketOptions } from '../../src/kernel/addon.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { openKernel } from '../../src/kernel/native-kernel.ts';
import { Actor } from '../lab/actor.ts';
import { buildAgent } from '../lab/native/build.ts';

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

/**
 * Starts programs for all tests of this process. A fork of a process as large as Vitest's takes ten
 * times the processor time of one of the agent's.
 */
const starters: Actor[] = [];

function run(program: string, args: readonly string[], input = ''): Promise<string> {
  starters[0] ??= new Actor('node', undefined, buildAgent());
  return starters[0].run([program, ...args], input);
}

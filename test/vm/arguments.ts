import { parseArgs } from 'node:util';

/** The options of the runner. */
export interface Options {
  readonly kernels: KernelChoice;
  readonly memoryMib: number;
  readonly cpus: number;
  /** How long one machine may take, boot included. */
  readonly timeLimitMs: number;
  readonly job: Job;
}

/** Debian's kernels, by series such as `6.12` or `6.1-uml`, or a kernel of the user's own. */
export type KernelChoice =
  | { readonly kind: 'debian'; readonly series: readonly string[] }
  | { readonly kind: 'own'; readonly image: string; readonly modules: string | undefined };

/** The kernel suite (all of it, or the files whose path contains a filter), or another command. */
export type Job =
  | { readonly kind: 'suite'; readonly filters: readonly string[] }
  | { readonly kind: 'command'; readonly words: readonly string[] };

/** The command line makes no sense; the message says why. */
export class UsageError extends Error {}

export const defaultSeries: readonly string[] = ['6.1', '6.12'];

export const usage = `usage: npm run test:vm -- [options] [test file ...] [-- command ...]
  --only SERIES         one Debian kernel series, for example 6.12; may be repeated. 6.1-uml: the
                        same sources, built as a program (user-mode Linux), about ten times faster
  --kernel BZIMAGE      a kernel of your own
  --modules DIRECTORY   its modules, for example /lib/modules/6.9.0
  --memory MIB          memory of a machine (2048)
  --cpus COUNT          processors of a machine (2); user-mode Linux has one
  --time-limit SECONDS  when to stop a machine that has not ended (1800)
  --help                this text
The command, by default the kernel suite, runs as root in the project's directory in the guest.`;

/**
 * Reads the words after the script's name. Undefined: help was asked for.
 * @throws UsageError
 */
export function parseArguments(words: readonly string[]): Options | undefined {
  const separator = words.indexOf('--');
  const own = separator < 0 ? words : words.slice(0, separator);
  const { values, positionals } = parse([...own]);
  if (values.help === true) return undefined;
  return {
    kernels: kernelChoice(values),
    memoryMib: count('memory', values.memory),
    cpus: count('cpus', values.cpus),
    timeLimitMs: count('time-limit', values['time-limit']) * 1000,
    job: job(positionals, separator < 0 ? undefined : words.slice(separator + 1)),
  };
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: {
        only: { type: 'string', multiple: true },
        kernel: { type: 'string' },
        modules: { type: 'string' },
        memory: { type: 'string', default: '2048' },
        cpus: { type: 'string', default: '2' },
        'time-limit': { type: 'string', default: '1800' },
        help: { type: 'boolean' },
      },
    });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function kernelChoice(values: {
  only?: string[] | undefined;
  kernel?: string | undefined;
  modules?: string | undefined;
}): KernelChoice {
  if (values.kernel !== undefined) {
    if (values.only !== undefined) throw new UsageError('--only and --kernel exclude each other');
    return { kind: 'own', image: values.kernel, modules: values.modules };
  }
  if (values.modules !== undefined) throw new UsageError('--modules needs --kernel');
  const series = values.only ?? defaultSeries;
  const wrong = series.find((name) => !/^\d+\.\d+(-uml)?$/.test(name));
  if (wrong !== undefined)
    throw new UsageError(`--only ${wrong}: a series looks like 6.12 or 6.1-uml`);
  return { kind: 'debian', series: [...new Set(series)] };
}

function job(filters: readonly string[], command: readonly string[] | undefined): Job {
  if (command === undefined) return { kind: 'suite', filters };
  if (command.length === 0) throw new UsageError('no command after --');
  if (filters.length > 0) {
    throw new UsageError(`${filters.join(' ')}: test files and a command exclude each other`);
  }
  return { kind: 'command', words: command };
}

function count(option: string, text: string): number {
  if (!/^[1-9]\d{0,6}$/.test(text)) {
    throw new UsageError(`--${option} ${text}: a whole number of at least 1 is needed`);
  }
  return Number(text);
}

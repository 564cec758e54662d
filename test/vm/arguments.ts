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

/**
 * The kernel suite (all of it, or the files whose path contains a filter), or another command. A
 * filter may begin with the series that it is for: `6.12=test/stories/ipvs`.
 */
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
  --cpus COUNT          processors of a machine (1); user-mode Linux has no more
  --time-limit SECONDS  when to stop a machine that has not ended (1800)
  --help                this text
A test file may be for one of the kernels: 6.12=test/stories/ipvs.
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
  const kernels = kernelChoice(values);
  const made = job(positionals, separator < 0 ? undefined : words.slice(separator + 1));
  if (made.kind === 'suite') checkFilters(kernels, made.filters);
  return {
    kernels,
    memoryMib: count('memory', values.memory),
    cpus: count('cpus', values.cpus),
    timeLimitMs: count('time-limit', values['time-limit']) * 1000,
    job: made,
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
        cpus: { type: 'string', default: '1' },
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

const filterOfSeries = /^(\d+\.\d+(?:-uml)?)=(.+)$/;

/** What the kernel of this name runs of a job. */
export function jobOf(all: Job, name: string): Job {
  return all.kind === 'command' ? all : { ...all, filters: filtersOf(all.filters, name) };
}

function filtersOf(filters: readonly string[], name: string): string[] {
  return filters.flatMap((filter) => {
    const [, series, file] = filterOfSeries.exec(filter) ?? [];
    if (series === undefined) return filter;
    return series === name ? file! : [];
  });
}

/** Without a filter a kernel would run the whole suite. */
function checkFilters(kernels: KernelChoice, filters: readonly string[]): void {
  const series = kernels.kind === 'debian' ? kernels.series : [];
  const lost = filters.find((filter) => {
    const [, name] = filterOfSeries.exec(filter) ?? [];
    return name !== undefined && !series.includes(name);
  });
  if (lost !== undefined) throw new UsageError(`${lost}: its kernel does not run`);
  const idle = series.find((name) => filters.length > 0 && filtersOf(filters, name).length === 0);
  if (idle !== undefined) throw new UsageError(`no test file is for ${idle}`);
}

function count(option: string, text: string): number {
  if (!/^[1-9]\d{0,6}$/.test(text)) {
    throw new UsageError(`--${option} ${text}: a whole number of at least 1 is needed`);
  }
  return Number(text);
}

/** Reads the arguments of a command that asks the running process. */
import { readFileSync } from 'node:fs';
import { type ParseArgsConfig, parseArgs } from 'node:util';
import { askOptions, type CommandOption, outputs } from '../../config/commands.ts';
import { splitHostPort } from '../../config/host-port.ts';
import { loadConfig } from '../../config/load.ts';
import { formatAddress, joinHostPort } from '../../net/address.ts';

export type Output = (typeof outputs)[number] | 'table';

/** The command line is wrong; the message says why. */
export class UsageError extends Error {}

export interface AskOptions {
  /** `http://127.0.0.1:10249` */
  readonly server: string;
  readonly output: Output;
  readonly watch: boolean;
  /** The values of the command's other options. */
  readonly values: Readonly<Record<string, string | undefined>>;
  readonly words: readonly string[];
}

const defaultServer = '127.0.0.1:10249';

/** Throws a UsageError. */
export function readOptions(
  args: readonly string[],
  known: Readonly<Record<string, CommandOption>> = askOptions,
): AskOptions {
  const specs = Object.entries(known).map(([name, { letter, shown }]) => {
    const type = shown === '' ? ('boolean' as const) : ('string' as const);
    return [name, letter === undefined ? { type } : { type, short: letter }] as const;
  });
  const { values, positionals } = parse(args, Object.fromEntries(specs));
  const { output = 'table' } = values;
  if (!isOutput(output)) throw new UsageError(`unknown output "${output}": ${outputs.join(', ')}`);
  return {
    server: `http://${serverOf(values)}`,
    output,
    watch: values.watch === true,
    values: values as AskOptions['values'],
    words: positionals,
  };
}

/** The only argument: an address or a Service, and a port. Throws a UsageError. */
export function onlyWord({ words }: AskOptions): string {
  const [word, extra] = words;
  if (word === undefined) throw new UsageError('an ADDRESS:PORT or NAMESPACE/NAME:PORT is missing');
  if (extra !== undefined) throw new UsageError(`unknown argument "${extra}"`);
  return word;
}

function parse(args: readonly string[], options: NonNullable<ParseArgsConfig['options']>) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true });
  } catch (error) {
    // The sentences after the first one say how to pass the word as an argument, which fails, too.
    throw new UsageError((error as Error).message.split('. ', 1)[0]);
  }
}

function isOutput(text: unknown): text is Output {
  return text === 'table' || outputs.some((output) => output === text);
}

function serverOf({ server, config }: Readonly<Record<string, unknown>>): string {
  if (typeof server === 'string') {
    const parts = splitHostPort(server);
    if (parts === undefined || !/^\d+$/.test(parts.port)) {
      throw new UsageError(`--server "${server}" is no ADDRESS:PORT`);
    }
    return joinHostPort(parts.host || 'localhost', Number(parts.port));
  }
  return typeof config === 'string' ? serverInFile(config) : defaultServer;
}

/** The address at which a process with this configuration answers. */
function serverInFile(path: string): string {
  const result = loadConfig(['--config', path], { readFile: (file) => readFileSync(file) });
  if (result.kind === 'error') throw new UsageError(result.message);
  const at = result.kind === 'run' ? result.config.metricsBindAddress : undefined;
  if (at === undefined)
    throw new UsageError(`${path}: metricsBindAddress is empty: nothing answers`);
  const { bytes, family } = at.address;
  const isWildcard = bytes.every((byte) => byte === 0);
  const loopback = family === 'IPv4' ? '127.0.0.1' : '::1';
  return joinHostPort(isWildcard ? loopback : formatAddress(bytes), at.port);
}

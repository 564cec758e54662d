/** What a command consists of: its words, arguments and flags, its help, and how it runs. */
import type { Clock, Surroundings } from './reader.ts';
import type { Terminal } from './terminal.ts';

export interface Command {
  /** The words after `fairlead`: `['service', 'list']`. */
  readonly words: readonly string[];
  /** Aliases of each of `words`, by position. */
  readonly aliases?: readonly (readonly string[])[];
  /** The section of `fairlead help` that lists it; absent = hidden, because it is for programs. */
  readonly group?: CommandGroup;
  /** One short line. */
  readonly summary: string;
  /** The text of `--help`: what it does, then defaults. Default: the summary. */
  readonly meaning?: string;
  readonly exitCodes?: string;
  /** The arguments as help shows them: `[NAMESPACE/]NAME[:PORT]`. */
  readonly arguments?: string;
  /** The least and the most arguments. Default: none. */
  readonly argumentCount?: readonly [number, number];
  /** What shells offer as the next argument; for small lists, all valid values. */
  readonly offers?: Offers;
  readonly flags?: Flags;
  /** It accepts the flags of `fairlead run` as well. */
  readonly takesRunFlags?: true;
  /** It parses its arguments itself. */
  readonly isRaw?: true;
  /** Example command lines for its help. */
  readonly examples: readonly string[];
  readonly load: () => Promise<{ readonly run: Run }>;
}

export const commandGroups = {
  ask: 'Ask the proxy of this node',
  node: 'Look at this node, with or without a proxy',
  other: 'Other commands',
} as const;
export type CommandGroup = keyof typeof commandGroups;

export type Flags = Readonly<Record<string, CommandFlag>>;

/** A flag of a command that kube-proxy does not have. */
export interface CommandFlag {
  /** The short form, after one hyphen. */
  readonly letter?: string;
  /** The name of its value; empty = it has no value. */
  readonly shown: string;
  readonly meaning: string;
  /** All valid values; one that ends with `=` continues after that. */
  readonly values?: readonly string[];
  readonly offers?: Offers;
}

/** Words, or a function that finds them when a shell asks. */
export type Offers = readonly string[] | 'files' | 'services' | 'service ports' | 'namespaces';

/** Resolves to the exit code. Rejects with the errors of errors.ts, which the caller prints. */
export type Run = (given: Given, io: Io) => Promise<number>;

/** The command line of a command. */
export interface Given {
  readonly command: Command;
  readonly words: readonly string[];
  /** The values of its own flags; `true` for one without a value. */
  readonly values: Readonly<Record<string, string | undefined>>;
  /** The flags of `fairlead run` that were given, as `--flag=value`. */
  readonly runFlags: readonly string[];
}

/** The environment of a command. */
export interface Io {
  readonly stdout: Terminal;
  readonly stderr: Terminal;
  /** Default: those of the process. */
  readonly clock?: Clock;
  readonly surroundings?: Surroundings;
  /** How long completion waits for names, in milliseconds. Default: 300. */
  readonly patienceMs?: number;
  readonly readFile?: (path: string) => Promise<Uint8Array>;
  readonly readStdin?: () => Promise<Uint8Array>;
}

/** `fairlead service list`. */
export function fullName({ words }: Pick<Command, 'words'>): string {
  return ['fairlead', ...words].join(' ');
}

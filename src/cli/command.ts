/** What a command is: its words, arguments and flags, its help, and how it runs. */
import type { Clock, Surroundings } from './reader.ts';
import type { Terminal } from './terminal.ts';

export interface Command {
  /** The words after `fairlead`: `['service', 'list']`. */
  readonly words: readonly string[];
  /** Other words for each of `words`, by its position. */
  readonly aliases?: readonly (readonly string[])[];
  /** Which part of `fairlead help` names it; absent = none, because it is for programs. */
  readonly group?: CommandGroup;
  /** One short line. */
  readonly summary: string;
  /** What `--help` says: what it does, then defaults. Default: the summary. */
  readonly meaning?: string;
  readonly exitCodes?: string;
  /** The arguments as help shows them: `[NAMESPACE/]NAME[:PORT]`. */
  readonly arguments?: string;
  /** The least and the most arguments. Default: none. */
  readonly argumentCount?: readonly [number, number];
  /** What shells offer as the next argument, and for small lists all that there is. */
  readonly offers?: Offers;
  readonly flags?: Flags;
  /** It takes the flags of `fairlead run` as well. */
  readonly takesRunFlags?: true;
  /** It reads its arguments itself. */
  readonly isRaw?: true;
  /** Command lines for its help. */
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

/** A flag of a command that is no flag of kube-proxy's. */
export interface CommandFlag {
  /** After one hyphen. */
  readonly letter?: string;
  /** What its value is called; empty = it has none. */
  readonly shown: string;
  readonly meaning: string;
  /** All values that there are; one that ends with `=` goes on after that. */
  readonly values?: readonly string[];
  readonly offers?: Offers;
  /** Neither help nor shells show it. */
  readonly isHidden?: true;
}

/** Words; or what is looked up when a shell asks. */
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

/** What surrounds a command. */
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

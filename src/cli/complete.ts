/**
 * `fairlead __complete WORD…`: completions of the last word, which may be empty. The output is that
 * of cobra: a line for each with a tab and a description, then `:` and a directive.
 */
import type { ServiceList } from '../ask/service.ts';
import { FlagError, type FlagHandler, readFlags } from '../config/flag-syntax.ts';
import { ask } from './ask/client.ts';
import { serverOf } from './ask/server.ts';
import type { Command, CommandFlag, Offers, Run } from './command.ts';
import { commandNames, commandsNamed, isCalled, shownCommands } from './commands.ts';
import { exitCodes } from './errors.ts';

/** How the shell treats the lines; numbers are cobra's. */
export const directives = { files: 0, noSpace: 2, words: 4, directories: 16 } as const;
type Directive = keyof typeof directives;

interface Offered {
  readonly lines: readonly string[];
  readonly directive: Directive;
}

/** How long a shell waits for names, in milliseconds. */
const patienceDefault = 300;
/** The most names to offer; beyond that, namespaces are offered. */
const namesMax = 200;
/** The most items of one answer of the process. */
const askedMax = 1000;

export const run: Run = async ({ words }, { patienceMs = patienceDefault, stdout }) => {
  const { directive, lines } = await offersFor(words, patienceMs);
  stdout.write([...lines, `:${directives[directive]}`, ''].join('\n'));
  return exitCodes.healthy;
};

const nothing: Offered = { lines: [], directive: 'words' };

async function offersFor(words: readonly string[], patienceMs: number): Promise<Offered> {
  const current = words.at(-1) ?? '';
  const [first, second] = words;
  if (words.length <= 1 && !current.startsWith('-')) {
    return listed(
      current,
      commandNames.map((name) => `${name}\t${summaryOf(name)}`),
    );
  }
  const isRun = first === undefined || first.startsWith('-');
  const found = commandsNamed(isRun ? 'run' : first);
  const [only] = found;
  if (only?.words.length === 1) return offersOf(only, words.slice(isRun ? 0 : 1), patienceMs);
  if (words.length === 2) {
    return listed(
      current,
      found.map(({ summary, words }) => `${words[1]}\t${summary}`),
    );
  }
  const command = found.find((one) => isCalled(one, 1, second ?? ''));
  return command === undefined ? nothing : offersOf(command, words.slice(2), patienceMs);
}

function summaryOf(name: string): string {
  const found = shownCommands.filter(({ words }) => words[0] === name);
  if (found.length === 1) return found[0]!.summary;
  return found.map(({ words }) => words[1]).join(', ');
}

/** `words` follow the command; the last one is completed. */
async function offersOf(
  command: Command,
  words: readonly string[],
  patienceMs: number,
): Promise<Offered> {
  if (command.words[0] === 'help') return helpSubjects(words);
  const current = words.at(-1) ?? '';
  const flags = await flagsOf(command);
  const before = readBefore(flags, words.slice(0, -1));
  if (before === undefined) return nothing;
  const { pending, positions, values } = before;
  if (pending !== undefined)
    return offer(pending.offers, current, { before: '', values, patienceMs });
  const [, name, value] = /^--([^=]+)=(.*)$/s.exec(current) ?? [];
  if (name !== undefined) {
    const flag = flags.find((one) => one.name === name);
    return flag === undefined
      ? nothing
      : offer(flag.offers, value!, { before: `--${name}=`, values, patienceMs });
  }
  if (current.startsWith('-')) return flagNames(flags, current);
  const [, most] = command.argumentCount ?? [0, 0];
  return positions < most
    ? offer(command.offers, current, { before: '', values, patienceMs })
    : nothing;
}

function helpSubjects(words: readonly string[]): Offered {
  const [first = '', second] = words;
  if (second === undefined) return listed(first, [...commandNames, 'flags']);
  if (words.length > 2) return nothing;
  return listed(
    second,
    commandsNamed(first).flatMap(({ words }) => words.slice(1)),
  );
}

interface OfferedFlag {
  readonly name: string;
  readonly letter: string | undefined;
  readonly takesValue: boolean;
  readonly meaning: string;
  readonly offers: Offers | 'directories' | undefined;
}

async function flagsOf({ flags = {}, takesRunFlags }: Command): Promise<OfferedFlag[]> {
  const own = Object.entries(flags).map(([name, flag]) => ownFlag(name, flag));
  const help: CommandFlag = { letter: 'h', shown: '', meaning: 'Print the help of the command.' };
  return [...own, ...(takesRunFlags ? await runFlags() : [ownFlag('help', help)])];
}

function ownFlag(
  name: string,
  { letter, meaning, offers, shown, values }: CommandFlag,
): OfferedFlag {
  return { name, letter, meaning, takesValue: shown !== '', offers: offers ?? values };
}

/** Deprecated flags work, but are not offered. */
async function runFlags(): Promise<OfferedFlag[]> {
  const [{ flagMeaning }, { flagKeys, settingTable }, { bareValue }] = await Promise.all([
    import('../config/flags.ts'),
    import('../config/settings/index.ts'),
    import('../config/types.ts'),
  ]);
  return [...flagKeys].flatMap(([name, key]) => {
    const setting = settingTable[key];
    if (setting.deprecated !== undefined) return [];
    const { offers, shorthand } = setting;
    const meaning = flagMeaning(key).split(/[.;:](?: |$)/, 1)[0]!;
    const takesValue = bareValue(setting) === undefined;
    return [{ name, letter: shorthand, meaning, takesValue, offers }];
  });
}

interface Before {
  /** The number of words that are neither flags nor values of flags. */
  readonly positions: number;
  readonly values: Readonly<Record<string, string>>;
  /** The flag whose value is the next word. */
  readonly pending: OfferedFlag | undefined;
}

/** Undefined if a flag is unknown. */
function readBefore(flags: readonly OfferedFlag[], words: readonly string[]): Before | undefined {
  const values: Record<string, string> = {};
  const handlerOf = (flag: OfferedFlag | undefined): FlagHandler | undefined => {
    if (flag === undefined) return undefined;
    const bare = flag.takesValue ? undefined : 'true';
    return {
      bare,
      take: (text) => {
        values[flag.name] = text;
      },
    };
  };
  const named = (name: string) => flags.find((flag) => flag.name === name);
  const lettered = (letter: string) => flags.find((flag) => flag.letter === letter);
  const last = words.at(-1) ?? '';
  const flag = last.startsWith('--')
    ? named(last.slice(2))
    : lettered(/^-(.)$/.exec(last)?.[1] ?? '');
  const pending = flag?.takesValue ? flag : undefined;
  try {
    const read = readFlags(pending === undefined ? words : words.slice(0, -1), {
      names: [],
      named: (name) => handlerOf(named(name)),
      lettered: (letter) => handlerOf(lettered(letter)),
    });
    return { positions: read.length, values, pending };
  } catch (error) {
    if (error instanceof FlagError) return undefined;
    throw error;
  }
}

function flagNames(flags: readonly OfferedFlag[], current: string): Offered {
  const lines = flags.map(({ meaning, name, takesValue }) => {
    return `--${name}${takesValue ? '=' : ''}\t${meaning.split('. ', 1)[0]}`;
  });
  const offered = listed(current, lines);
  const isValued = offered.lines.some((line) => line.split('\t', 1)[0]!.endsWith('='));
  return { ...offered, directive: isValued ? 'noSpace' : 'words' };
}

/** The words that begin with `current`, each with the prefix `before`. */
function listed(current: string, words: readonly string[], before = ''): Offered {
  const lines = words.filter((word) => word.startsWith(current)).map((word) => before + word);
  const isOpen = lines.some((line) => /[=/:]$/.test(line.split('\t', 1)[0]!));
  return { lines, directive: isOpen ? 'noSpace' : 'words' };
}

interface Asking {
  /** The prefix of each word. */
  readonly before: string;
  /** The flags of the line. */
  readonly values: Readonly<Record<string, string>>;
  readonly patienceMs: number;
}

async function offer(
  offers: OfferedFlag['offers'],
  current: string,
  asking: Asking,
): Promise<Offered> {
  if (offers === undefined) return nothing;
  if (offers === 'files' || offers === 'directories') return { lines: [], directive: offers };
  if (typeof offers !== 'string') return listed(current, offers, asking.before);
  // Without an answer there is nothing to offer.
  const words = await namesFrom(offers, current, asking).catch(() => []);
  return listed(current, words, asking.before);
}

type Named = Exclude<Offers, readonly string[] | 'files'>;

/** Sends a question to the running process. */
async function namesFrom(
  what: Named,
  current: string,
  { patienceMs, values }: Asking,
): Promise<readonly string[]> {
  const server = await serverOf({ values });
  const [, typed, rest = current] = /^([^/]*)\/(.*)$/s.exec(current) ?? [];
  const namespace = typed ?? (what === 'namespaces' ? undefined : values.namespace);
  const name = rest.split(':', 1)[0]!;
  const limits = { limit: String(askedMax) };
  // Without a namespace, the typed text may be the beginning of one.
  const query = namespace === undefined ? limits : { ...limits, namespace, name: `${name}*` };
  const { items } = await ask(server, 'services', query, patienceMs);
  const namespaces = [...new Set(items.map((item) => item.namespace))].sort();
  if (what === 'namespaces') return namespaces;
  const before = (item: Item): string => {
    return values.namespace !== undefined && typed === undefined ? '' : `${item.namespace}/`;
  };
  const endings = (item: Item): string[] => {
    if (what === 'services') return [''];
    if (!rest.includes(':')) return [':'];
    return item.ports.map((port) => `:${port.name === '' ? port.port : port.name}`);
  };
  const all = items.flatMap((item) =>
    endings(item).flatMap((ending) => {
      const ended = `${item.name}${ending}`;
      const isNamed = current !== '' && namespace === undefined && item.name.startsWith(name);
      return [before(item) + ended, ...(isNamed ? [ended] : [])];
    }),
  );
  const fitting = all.filter((word) => word.startsWith(current)).sort();
  return fitting.length <= namesMax ? fitting : namespaces.map((one) => `${one}/`);
}

type Item = ServiceList['items'][number];

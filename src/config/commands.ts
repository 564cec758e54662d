/** What the program can be told to do: for help, completion and the manual page. */
interface CommandSpec {
  readonly name: string;
  /** What follows the word `fairlead`. */
  readonly usage: string;
  readonly meaning: string;
  /** Words that may come next. */
  readonly words?: readonly string[];
}

export const shells = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof shells)[number];

export const commands: readonly CommandSpec[] = [
  { name: 'run', usage: '[run] [flags]', meaning: 'Proxy the Services of this node.' },
  {
    name: 'config',
    usage: 'config validate FILE',
    meaning:
      'Check a KubeProxyConfiguration, or a ConfigMap that has one, as a start with --config ' +
      'would. FILE may be -, standard input.',
    words: ['validate', 'convert'],
  },
  {
    name: 'config',
    usage: 'config convert --from openshift|ovhcloud|flags FILE',
    meaning: 'Print FILE as a KubeProxyConfiguration; what became of each field goes to stderr.',
  },
  {
    name: 'demo',
    usage: 'demo',
    meaning: 'Show three pods, a Service and how it scales on this machine; needs no cluster.',
  },
  {
    name: 'preflight',
    usage: 'preflight [flags] [-o text|json|yaml]',
    meaning:
      'Look, before an installation, whether this node is ready for a start with these flags: ' +
      'modes, other agents, settings, ports. Writes nothing. Exit code 1: there is a problem.',
  },
  {
    name: 'completion',
    usage: `completion ${shells.join('|')}`,
    meaning: 'Print a script that completes commands and flags in this shell.',
    words: shells,
  },
  { name: 'version', usage: 'version', meaning: 'Print the version.' },
  {
    name: 'help',
    usage: 'help [COMMAND]',
    meaning: 'Print this text, or how a command is used.',
  },
];

export const commandNames: readonly string[] = [...new Set(commands.map(({ name }) => name))];

/** What may come after a command. */
export function wordsAfter(command: string): readonly string[] {
  if (command === 'help') return commandNames;
  return commands.find(({ name }) => name === command)?.words ?? [];
}

/** How a command is used, or all are. */
export function usage(command?: string): string {
  const shown = commands.filter(({ name }) => command === undefined || name === command);
  const lines = shown.map(
    ({ usage, meaning }) => `  fairlead ${usage}\n${wrap(meaning, ' '.repeat(10))}\n`,
  );
  return `Usage:\n${lines.join('')}`;
}

const columnsMax = 100;
/** A blank at which no line is broken. */
export const unbreakable = '\u00a0';

/** Breaks a text into lines that begin with `indent`. */
export function wrap(text: string, indent: string): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && indent.length + line.length + 1 + word.length > columnsMax) {
      lines.push(indent + line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return [...lines, indent + line].join('\n').replaceAll(unbreakable, ' ');
}

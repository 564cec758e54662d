/** A command of the program, for help, completion and the manual page. */
interface CommandSpec {
  readonly name: string;
  /** What follows the word `fairlead`. */
  readonly usage: string;
  readonly meaning: string;
  /** Words that may come next. */
  readonly words?: readonly string[];
  /** It asks the process that runs on this node, or the node itself, and takes these. */
  readonly options?: Readonly<Record<string, CommandOption>>;
}

/** An option of a command that is no flag of kube-proxy's. */
export interface CommandOption {
  /** After one hyphen. */
  readonly letter?: string;
  /** What its value is called; empty = it has none. */
  readonly shown: string;
  readonly meaning: string;
  /** Values that shells offer. */
  readonly words?: readonly string[];
}

/** How answers are written. */
export const outputs = ['json', 'yaml', 'wide'] as const;

/** Options of every command that asks. */
export const askOptions = {
  server: {
    shown: 'ADDRESS:PORT',
    meaning: 'Where the process answers, as its metricsBindAddress says (default 127.0.0.1:10249).',
  },
  config: { shown: 'FILE', meaning: 'The configuration of the process, which says the same.' },
  output: {
    letter: 'o',
    shown: outputs.join('|'),
    meaning: 'The whole answer as JSON or YAML (docs/api.md), or more columns.',
    words: outputs,
  },
  watch: { letter: 'w', shown: '', meaning: 'Ask every two seconds, and print what has changed.' },
} as const satisfies Readonly<Record<string, CommandOption>>;

/** Of commands about Services. */
export const namespaceOption = {
  ...askOptions,
  namespace: { letter: 'n', shown: 'NAMESPACE', meaning: 'Only what is in this namespace.' },
} as const satisfies Readonly<Record<string, CommandOption>>;

export const listOptions = {
  ...namespaceOption,
  selector: {
    letter: 'l',
    shown: 'LABELS',
    meaning: 'Only Services with these labels: app=web,tier!=db. The API server is asked for them.',
  },
} as const satisfies Readonly<Record<string, CommandOption>>;

export const explainOptions = {
  ...askOptions,
  from: {
    shown: 'IP|pod|node|outside|pod/NAMESPACE/NAME',
    meaning:
      'Who sends the packet: an address, or a pod of this node (default), the node, others; or a ' +
      'pod by its name, which the API server is asked for.',
    words: ['pod', 'node', 'outside'],
  },
} as const satisfies Readonly<Record<string, CommandOption>>;

export const traceOptions = {
  server: askOptions.server,
  config: askOptions.config,
  output: {
    letter: 'o',
    shown: 'json|yaml',
    meaning: 'All packets when the last one was told, as JSON or YAML (docs/api.md).',
    words: ['json', 'yaml'],
  },
  from: {
    shown: 'IP|CIDR|node',
    meaning:
      'Only packets of these addresses, or of this node. With node the command sends them itself: ' +
      'it opens a connection and closes it, or sends an empty datagram.',
    words: ['node'],
  },
  count: { letter: 'n', shown: 'N', meaning: 'How many packets, 1 to 100 (default 1).' },
  timeout: { shown: 'DURATION', meaning: 'How long to wait for them (default 30s).' },
} as const satisfies Readonly<Record<string, CommandOption>>;

export const topOptions = {
  server: askOptions.server,
  config: askOptions.config,
  output: { letter: 'o', shown: 'json', meaning: 'One line of JSON an interval.', words: ['json'] },
  interval: {
    shown: 'SECONDS',
    meaning: 'How long rates are counted for, 2 at least (default 2).',
  },
  count: { letter: 'n', shown: 'N', meaning: 'End after so many intervals.' },
  sort: {
    shown: 'connections|refusals|name',
    meaning: 'What comes first (default connections).',
    words: ['connections', 'refusals', 'name'],
  },
} as const satisfies Readonly<Record<string, CommandOption>>;

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
    name: 'status',
    usage: 'status [options]',
    meaning:
      'Ask the process of this node whether it is well: mode, syncs, watches, Services that the ' +
      'kernel refuses, what others changed. Ends with 0 when it is well, 1 when it is not, 2 when ' +
      'asked wrongly, 3 when nobody answers.',
    options: askOptions,
  },
  {
    name: 'service',
    usage: 'service list [-n NAMESPACE] [-l LABELS] [NAME]',
    meaning:
      'List the Services that the process of this node serves: endpoints used of those that there ' +
      'are, and whether the kernel holds all that is wanted. NAME may hold * and ?.',
    words: ['list', 'show'],
    options: listOptions,
  },
  {
    name: 'service',
    usage: 'service show [NAMESPACE/]NAME[:PORT]',
    meaning:
      'Show what a Service means on this node: frontends, endpoints, which are used and why the ' +
      'others are not, and what changed lately. Ends with 1 when something is wrong with it.',
    options: namespaceOption,
  },
  {
    name: 'explain',
    usage: 'explain ADDRESS:PORT|NAMESPACE/NAME:PORT[/PROTOCOL] [--from CLIENT] [options]',
    meaning:
      'Ask the process of this node what becomes of a packet, step by step, by which object in the ' +
      'kernel, and why. Ends with 0 when it reaches an endpoint, and else with 1.',
    options: explainOptions,
  },
  {
    name: 'trace',
    usage: 'trace ADDRESS:PORT|NAMESPACE/NAME:PORT[/PROTOCOL] [--from CLIENT] [-n N] [options]',
    meaning:
      'Follow real packets through all rules of nf_tables on this node, those of other programs ' +
      'too, and tell what became of each: the endpoint, or the rule that dropped it. Of TCP, ' +
      'packets that ask for connections. Needs CAP_NET_ADMIN and Linux 5.12; leaves nothing behind. ' +
      'Ends with 0 when all went to endpoints, and else with 1.',
    options: traceOptions,
  },
  {
    name: 'diff',
    usage: 'diff [options]',
    meaning:
      'Have the process of this node compare the kernel with what it should hold, and name what ' +
      'differs, by Service. Writes nothing. Ends with 0 when all is the same, and else with 1.',
    options: askOptions,
  },
  {
    name: 'top',
    usage: 'top [[NAMESPACE/]NAME] [options]',
    meaning:
      'Show connections a second by Service, and what is refused and why; of the Service NAME by ' +
      'endpoint, too. Needs --service-metrics.',
    options: topOptions,
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
    name: 'shadow',
    usage: 'shadow [flags] [--once|--watch] [--settle DURATION] [-o text|json|yaml]',
    meaning:
      'Compare what kube-proxy has programmed on this node with what Fairlead would, with these ' +
      'flags. Writes nothing. Only what lasts for --settle (default 10s) is a difference. ' +
      'Exit code 1: there are some.',
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

/** Commands that ask the process that runs on this node. */
export const askNames: readonly string[] = [
  ...new Set(commands.flatMap(({ name, options }) => (options === undefined ? [] : [name]))),
];

/** Options of all that begins with this word. */
export function optionsAfter(command: string): Readonly<Record<string, CommandOption>> {
  const specs = commands.filter(({ name }) => name === command);
  return Object.assign({}, ...specs.map(({ options }) => options));
}

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
  const options = command === undefined ? '' : optionLines(command);
  return `Usage:\n${lines.join('')}${options}`;
}

function optionLines(command: string): string {
  const options = Object.entries(optionsAfter(command));
  const lines = options.map(([name, option]) => {
    return `  ${optionHeading(name, option)}\n${wrap(option.meaning, ' '.repeat(10))}\n`;
  });
  return lines.length === 0 ? '' : `Options:\n${lines.join('')}`;
}

/** `-o, --output json|yaml|wide`. */
export function optionHeading(name: string, { letter, shown }: CommandOption): string {
  return `${letter === undefined ? '' : `-${letter}, `}--${name} ${shown}`.trimEnd();
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

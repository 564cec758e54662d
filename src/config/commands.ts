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
    meaning: 'Address of the running process: its metricsBindAddress (default 127.0.0.1:10249).',
  },
  config: { shown: 'FILE', meaning: 'Take the address from this configuration file.' },
  output: {
    letter: 'o',
    shown: outputs.join('|'),
    meaning: 'Print the whole answer as JSON or YAML (docs/api.md), or a table with more columns.',
    words: outputs,
  },
  watch: {
    letter: 'w',
    shown: '',
    meaning: 'Ask every two seconds and print changes, until nobody reads them.',
  },
} as const satisfies Readonly<Record<string, CommandOption>>;

/** Of commands about Services. */
export const namespaceOption = {
  ...askOptions,
  namespace: { letter: 'n', shown: 'NAMESPACE', meaning: 'Only this namespace.' },
} as const satisfies Readonly<Record<string, CommandOption>>;

export const listOptions = {
  ...namespaceOption,
  selector: {
    letter: 'l',
    shown: 'LABELS',
    meaning: 'Only Services with these labels (app=web,tier!=db), as the API server selects them.',
  },
  problems: { shown: '', meaning: 'Only Services that have problems on this node.' },
} as const satisfies Readonly<Record<string, CommandOption>>;

export const explainOptions = {
  ...askOptions,
  from: {
    shown: 'IP|pod|node|outside|pod/NAMESPACE/NAME',
    meaning:
      'Sender of the packet: an address, a pod of this node (default), the node, or a client ' +
      'outside the cluster; or a pod by name, looked up in the API server.',
    words: ['pod', 'node', 'outside'],
  },
} as const satisfies Readonly<Record<string, CommandOption>>;

export const traceOptions = {
  server: askOptions.server,
  config: askOptions.config,
  output: {
    letter: 'o',
    shown: 'json|yaml',
    meaning: 'Print all packets at the end, as JSON or YAML (docs/api.md).',
    words: ['json', 'yaml'],
  },
  from: {
    shown: 'IP|CIDR|node',
    meaning:
      'Only packets from these addresses, or from this node. With node, the command sends them: ' +
      'it opens a connection and closes it, or sends an empty datagram.',
    words: ['node'],
  },
  count: { letter: 'n', shown: 'N', meaning: 'Number of packets, 1 to 100 (default 1).' },
  timeout: { shown: 'DURATION', meaning: 'Time to wait for them (default 30s).' },
} as const satisfies Readonly<Record<string, CommandOption>>;

export const topOptions = {
  server: askOptions.server,
  config: askOptions.config,
  output: {
    letter: 'o',
    shown: 'json',
    meaning: 'Print one line of JSON for each interval.',
    words: ['json'],
  },
  interval: {
    shown: 'SECONDS',
    meaning: 'Interval of the rates, at least 2 (default 2).',
  },
  count: { letter: 'n', shown: 'N', meaning: 'Exit after N intervals.' },
  sort: {
    shown: 'connections|refusals|name',
    meaning: 'Sort order (default connections).',
    words: ['connections', 'refusals', 'name'],
  },
} as const satisfies Readonly<Record<string, CommandOption>>;

export const connectTimeOptions = {
  server: askOptions.server,
  config: askOptions.config,
  'dry-run': { shown: '', meaning: 'Print what would be removed, and remove nothing.' },
  'ignore-other-instance': {
    shown: '',
    meaning:
      'Remove them although a Fairlead runs that uses them: it attaches them again within seconds.',
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
      'Check a KubeProxyConfiguration, or a ConfigMap that contains one, as --config does. ' +
      'FILE may be - for standard input.',
    words: ['validate', 'convert'],
  },
  {
    name: 'config',
    usage: 'config convert --from openshift|ovhcloud|flags FILE',
    meaning: 'Print FILE as a KubeProxyConfiguration; report each translated field on stderr.',
  },
  {
    name: 'status',
    usage: 'status [options]',
    meaning:
      'Show whether the proxy of this node is healthy: mode, syncs, watches, Services that the ' +
      'kernel rejected, changes by other programs. Exit code: 0 healthy, 1 unhealthy, 2 usage ' +
      'error, 3 not reachable.',
    options: askOptions,
  },
  {
    name: 'service',
    usage: 'service list [-n NAMESPACE] [-l LABELS] [--problems] [NAME]',
    meaning:
      'List the Services of this node: endpoints in use, all endpoints, and what is wrong with ' +
      'each, or whether it is in force. NAME may contain * and ?.',
    words: ['list', 'show'],
    options: listOptions,
  },
  {
    name: 'service',
    usage: 'service show [NAMESPACE/]NAME[:PORT]',
    meaning:
      'Show a Service on this node: frontends, endpoints, which endpoints are in use and why the ' +
      'others are not, and recent changes. Exit code: 1 if the Service has a problem.',
    options: namespaceOption,
  },
  {
    name: 'problems',
    usage: 'problems [-n NAMESPACE] [options]',
    meaning:
      'List all that is wrong on this node: with the proxy, and with Services, each with its ' +
      'reason. Exit code: 0 nothing, 1 a problem, 2 usage error, 3 not reachable.',
    options: namespaceOption,
  },
  {
    name: 'explain',
    usage: 'explain ADDRESS:PORT|NAMESPACE/NAME:PORT[/PROTOCOL] [--from CLIENT] [options]',
    meaning:
      'Explain step by step how a packet is handled, by which kernel object, and why. Exit code: ' +
      '0 if it reaches an endpoint, else 1.',
    options: explainOptions,
  },
  {
    name: 'trace',
    usage: 'trace ADDRESS:PORT|NAMESPACE/NAME:PORT[/PROTOCOL] [--from CLIENT] [-n N] [options]',
    meaning:
      'Follow real packets through all nf_tables rules on this node, including those of other ' +
      'programs, and report where each went: the endpoint, or the rule that dropped it. For TCP, ' +
      'packets that open connections. Needs CAP_NET_ADMIN and Linux 5.12; leaves nothing behind. ' +
      'Exit code: 0 if all packets went to endpoints, else 1.',
    options: traceOptions,
  },
  {
    name: 'diff',
    usage: 'diff [options]',
    meaning:
      'Compare the kernel with the desired state and list the differences by Service. Writes ' +
      'nothing. Exit code: 0 if there is no difference, else 1.',
    options: askOptions,
  },
  {
    name: 'top',
    usage: 'top [[NAMESPACE/]NAME] [options]',
    meaning:
      'Show connections a second by Service, and refused connections with the reason; for the ' +
      'Service NAME also by endpoint. Needs --service-metrics.',
    options: topOptions,
  },
  {
    name: 'connect-time',
    usage: 'connect-time remove [--dry-run] [--ignore-other-instance]',
    meaning:
      'Remove the programs of connect-time translation from this node, and no rules: before or ' +
      'after going back to kube-proxy. Needs no running Fairlead, and refuses while one uses them. ' +
      'Exit code: 0 none is left, 1 some may be left or are in use, 2 usage error.',
    words: ['remove'],
    options: connectTimeOptions,
  },
  {
    name: 'demo',
    usage: 'demo',
    meaning: 'Run a Service with three pods on this machine and scale it; needs no cluster.',
  },
  {
    name: 'preflight',
    usage: 'preflight [flags] [-o text|json|yaml]',
    meaning:
      'Check before an installation whether this node is ready for these flags: modes, other ' +
      'agents, settings, ports. Writes nothing. Exit code: 1 if there is a problem.',
  },
  {
    name: 'shadow',
    usage: 'shadow [flags] [--once|--watch] [--settle DURATION] [-o text|json|yaml]',
    meaning:
      'Compare the rules of kube-proxy on this node with the rules that Fairlead would program ' +
      'with these flags. Writes nothing. A difference counts if it lasts for --settle (default ' +
      '10s). Exit code: 1 if there are differences.',
  },
  {
    name: 'completion',
    usage: `completion ${shells.join('|')}`,
    meaning: 'Print a completion script for this shell.',
    words: shells,
  },
  { name: 'version', usage: 'version', meaning: 'Print the version.' },
  {
    name: 'help',
    usage: 'help [COMMAND]',
    meaning: 'Print this text, or the usage of a command.',
  },
];

export const commandNames: readonly string[] = [...new Set(commands.map(({ name }) => name))];

/** Commands that ask the process that runs on this node, or the node itself. */
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

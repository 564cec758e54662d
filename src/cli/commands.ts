/**
 * The commands. A command is an entry here and a module that runs it; its help, the manual page,
 * completion and the check of its arguments are derived from the entry.
 */
import type { Command } from './command.ts';
import {
  answerOutputs,
  askFlags,
  namespaceFlags,
  noHeadersFlag,
  outputFlag,
  serverFlags,
} from './flags.ts';

/** Formats that `fairlead config convert` reads. */
const importSources = [
  ...['openshift', 'ovhcloud', 'flags', 'kubeadm'],
  ...['k3s', 'rke', 'talos', 'k0s', 'kops'],
];
export const shells = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof shells)[number];

/** The reports of `fairlead node-report`. */
const reports = ['status', 'service', 'problems', 'diff', 'trace', 'bundle'] as const;

const target = 'ADDRESS:PORT[/PROTOCOL]|[NAMESPACE/]NAME:PORT[/PROTOCOL]';
const targetMeaning =
  'PORT is a number, or the name of a port of the Service. Without PROTOCOL, an ADDRESS means TCP; ' +
  'where the port has several protocols, each is reported.';
const askExitCodes = '2 wrong usage, 3 the process is not reachable';

const serviceWords = ['svc', 'services'] as const;

/** By the words after `fairlead`; help lists them in this order. */
const table: Readonly<Record<string, Omit<Command, 'words'>>> = {
  status: {
    group: 'ask',
    summary: 'Whether the proxy is healthy, and why not',
    meaning:
      'Show whether the proxy of this node is healthy: mode, syncs, watches, Services that the ' +
      'kernel rejected, changes by other programs.',
    exitCodes: `0 healthy, 1 unhealthy, ${askExitCodes}`,
    flags: { ...askFlags, ...noHeadersFlag },
    examples: ['fairlead status', "fairlead status -o jsonpath='{.problems[*]}'"],
    load: () => import('./ask/status.ts'),
  },
  'service list': {
    aliases: [serviceWords, ['ls', 'get']],
    group: 'ask',
    summary: 'List Services: endpoints in use, problems',
    meaning:
      'List the Services of this node: endpoints in use, all endpoints, and the problems ' +
      'of each, or whether it is in force. NAME may contain * and ?.',
    exitCodes: `0 success, 1 the NAME has no Service, ${askExitCodes}`,
    arguments: '[NAME]',
    argumentCount: [0, 1],
    offers: 'services',
    flags: {
      ...askFlags,
      output: outputFlag(...answerOutputs, 'name'),
      ...namespaceFlags,
      problems: { shown: '', meaning: 'Only Services that have problems on this node.' },
      ...noHeadersFlag,
    },
    examples: [
      'fairlead service list',
      "fairlead svc ls -n shop 'web-*'",
      'fairlead services get --problems -o name',
    ],
    load: () => import('./ask/service-list.ts'),
  },
  'service show': {
    aliases: [serviceWords, ['describe']],
    group: 'ask',
    summary: 'Frontends, endpoints and problems of a Service',
    meaning:
      'Show a Service on this node: frontends, endpoints, which endpoints are in use and why the ' +
      'others are not, and recent changes. ADDRESS is one of its addresses. A NAME without ' +
      'namespace is the only Service of that name, or that of namespace default.',
    exitCodes: `0 no problem, 1 it has a problem or does not exist, ${askExitCodes}`,
    arguments: '[NAMESPACE/]NAME[:PORT]|ADDRESS[:PORT]',
    argumentCount: [1, 1],
    offers: 'services',
    flags: {
      ...askFlags,
      output: outputFlag(...answerOutputs, 'name'),
      ...namespaceFlags,
      ...noHeadersFlag,
    },
    examples: [
      'fairlead service show kube-system/kube-dns',
      'fairlead svc show web:http -n shop',
      'fairlead service show 10.96.0.10',
    ],
    load: () => import('./ask/service-show.ts'),
  },
  'service check': {
    aliases: [serviceWords],
    group: 'ask',
    summary: 'Connect to a Service and its endpoints',
    meaning:
      'Connect from this node to each endpoint of a Service and to each of its frontends (ClusterIP, ' +
      'node port, load balancer, external IP), ask its health-check node port, and report which ' +
      'refuse or do not answer, and why. TCP connections are closed immediately; for UDP, a ' +
      'datagram is sent: a question of DNS to ports 53 and 5353, else an empty one. At most 100 endpoints, 50 connections a second.',
    exitCodes: `0 no failure, 1 an endpoint in use or the Service fails, ${askExitCodes}`,
    arguments: '[NAMESPACE/]NAME[:PORT]|ADDRESS[:PORT]',
    argumentCount: [1, 1],
    offers: 'services',
    flags: {
      ...serverFlags,
      output: outputFlag('json', 'jsonpath='),
      ...namespaceFlags,
      timeout: {
        shown: 'DURATION',
        meaning: 'Time to wait for each answer (default 2s, at most 10s).',
      },
      speak: {
        shown: '',
        meaning:
          'Send a greeting of TLS to endpoints, and a blank line, and show what they speak. ' +
          'Programs that speak first are sent nothing.',
      },
      size: {
        shown: 'BYTES',
        meaning: 'Do so with a greeting of this length, too: the MTU of the way may be smaller.',
      },
      ...noHeadersFlag,
    },
    examples: [
      'fairlead service check shop/web',
      'fairlead svc check kube-system/kube-dns:53',
      'fairlead service check shop/web --size 1400',
    ],
    load: () => import('./ask/service-check.ts'),
  },
  problems: {
    group: 'ask',
    summary: 'Problems of this node',
    meaning: 'List all problems of this node: of the proxy, and of Services, each with its reason.',
    exitCodes: `0 nothing, 1 a problem, ${askExitCodes}`,
    flags: { ...askFlags, ...namespaceFlags, ...noHeadersFlag },
    examples: ['fairlead problems', 'fairlead problems -n shop -w'],
    load: () => import('./ask/problems.ts'),
  },
  explain: {
    group: 'ask',
    summary: 'How a packet is handled, step by step, and why',
    meaning:
      'Explain step by step how a packet is handled, by which kernel object, and why. ' +
      targetMeaning,
    exitCodes: `0 it reaches an endpoint, 1 it does not, or an endpoint is unreachable, ${askExitCodes}`,
    arguments: `${target} [--from CLIENT]`,
    argumentCount: [1, 1],
    offers: 'service ports',
    flags: {
      ...askFlags,
      ...namespaceFlags,
      from: {
        shown: 'IP|pod|node|outside|pod/NAMESPACE/NAME',
        meaning:
          'Sender of the packet: an address, a pod of this node (default), the node, or a client ' +
          'outside the cluster, who does not use the ClusterIP: then each other frontend of a ' +
          'Service is explained; or a pod by name, looked up in the API server.',
        offers: ['pod', 'node', 'outside', 'pod/'],
      },
    },
    examples: [
      'fairlead explain kube-system/kube-dns:53',
      'fairlead explain 10.96.0.10:53/UDP --from 10.244.1.7',
      'fairlead explain shop/web:http --from outside',
    ],
    load: () => import('./ask/explain.ts'),
  },
  trace: {
    group: 'ask',
    summary: 'Follow real packets through all rules of this node',
    meaning:
      'Follow real packets through all nf_tables rules on this node, including those of other ' +
      'programs, and report where each went: the endpoint, or the rule that dropped it. For TCP, ' +
      'packets that open connections. Needs CAP_NET_ADMIN and Linux 5.12; leaves nothing behind. ' +
      targetMeaning,
    exitCodes: `0 endpoints took all packets, 1 one was lost or refused, ${askExitCodes}`,
    arguments: `${target} [--from CLIENT]`,
    argumentCount: [1, 1],
    offers: 'service ports',
    flags: {
      ...serverFlags,
      output: {
        ...outputFlag('json', 'jsonpath='),
        meaning: 'Print all packets at the end, as JSON (docs/api.md), or fields of them.',
      },
      ...namespaceFlags,
      from: {
        shown: 'IP|CIDR|node',
        meaning:
          'Only packets from these addresses, or from this node. With node, the command sends them: ' +
          'it opens a connection and closes it, or sends a datagram.',
        offers: ['node'],
      },
      count: { letter: 'c', shown: 'N', meaning: 'Number of packets, 1 to 100 (default 1).' },
      timeout: { shown: 'DURATION', meaning: 'Time to wait for them (default 30s).' },
    },
    examples: [
      'fairlead trace shop/web:http --from node',
      'fairlead trace 10.96.0.10:53/UDP --from 10.244.1.0/24 -c 5 --timeout 1m',
    ],
    load: () => import('./ask/trace.ts'),
  },
  drops: {
    group: 'ask',
    summary: 'Packets to Services that are dropped or refused',
    meaning:
      'Print, as it happens, which connections to Services do not get through this node: client, ' +
      'frontend, and the rule that drops or rejects them, ours or another program’s, which shows when ' +
      'the client tries again. At most 20 lines a second. Needs CAP_NET_ADMIN and Linux 5.12; leaves nothing behind.',
    exitCodes: `0 none was found, 1 some were, ${askExitCodes}`,
    flags: {
      ...serverFlags,
      output: { ...outputFlag('json'), meaning: 'Print one line of JSON for each (docs/api.md).' },
      ...namespaceFlags,
      count: { letter: 'c', shown: 'N', meaning: 'Exit after N lines.' },
      timeout: { shown: 'DURATION', meaning: 'Exit after this time (default: never).' },
    },
    examples: ['fairlead drops', 'fairlead drops -n shop --timeout 1m -o json'],
    load: () => import('./ask/drops.ts'),
  },
  diff: {
    group: 'ask',
    summary: 'Compare the kernel with the desired state',
    meaning:
      'Compare the kernel with the desired state and list the differences by Service. Writes nothing.',
    exitCodes: `0 no difference, 1 there are differences, ${askExitCodes}`,
    flags: askFlags,
    examples: ['fairlead diff', 'fairlead diff -o wide'],
    load: () => import('./ask/diff.ts'),
  },
  top: {
    group: 'ask',
    summary: 'Connections a second by Service, and refusals',
    meaning:
      'Show connections a second by Service, and refused connections with the reason; for the ' +
      'Service NAME also by endpoint. Needs --service-metrics.',
    exitCodes: `0 success, 1 nothing is counted, ${askExitCodes}`,
    arguments: '[[NAMESPACE/]NAME]',
    argumentCount: [0, 1],
    offers: 'services',
    flags: {
      ...serverFlags,
      output: {
        ...outputFlag('json'),
        meaning: 'Print one line of JSON for each interval.',
      },
      ...namespaceFlags,
      interval: { shown: 'SECONDS', meaning: 'Interval of the rates, at least 2 (default 2).' },
      count: { letter: 'c', shown: 'N', meaning: 'Exit after N intervals.' },
      sort: {
        shown: 'connections|refusals|bytes|name',
        meaning: 'Sort order (default connections).',
        values: ['connections', 'refusals', 'bytes', 'name'],
      },
      ...noHeadersFlag,
    },
    examples: ['fairlead top', 'fairlead top shop/web --interval 5', 'fairlead top -c 1 -o json'],
    load: () => import('./ask/top.ts'),
  },
  preflight: {
    group: 'node',
    summary: 'Is this node ready for an installation?',
    meaning:
      'Check before an installation whether this node is ready for these flags: modes, other ' +
      'agents, settings, ports. Writes nothing.',
    exitCodes: '0 ready, 1 there is a problem, 2 wrong usage',
    takesRunFlags: true,
    flags: { output: outputFlag('text', 'json', 'jsonpath=') },
    examples: ['fairlead preflight --config /var/lib/kube-proxy/config.conf'],
    load: () => import('./preflight.ts'),
  },
  shadow: {
    group: 'node',
    summary: 'Compare kube-proxy’s rules with ours',
    meaning:
      'Compare the rules of kube-proxy on this node with the rules that Fairlead would program ' +
      'with these flags. Writes nothing.',
    exitCodes: '0 no difference, 1 there are differences, 2 wrong usage',
    takesRunFlags: true,
    flags: {
      output: outputFlag('text', 'json', 'jsonpath='),
      settle: {
        shown: 'DURATION',
        meaning: 'A difference counts if it lasts this long (default 10s).',
      },
    },
    examples: ['fairlead shadow --kubeconfig /etc/kubernetes/kube-proxy.conf'],
    load: () => import('./shadow.ts'),
  },
  bundle: {
    group: 'node',
    summary: 'Collect facts for a bug report',
    meaning:
      'Write a tar archive: status, problems, changes, differences, metrics, configuration, rules, ' +
      'sysctls, facts about the kernel. Secrets are left out where a word such as token or password ' +
      'is before them: read comments of rules of other programs before passing the archive on. If ' +
      'the process does not answer, the archive has the rest.',
    exitCodes: '0 success, 2 wrong usage',
    flags: serverFlags,
    examples: ['fairlead bundle | tar -tv'],
    load: () => import('./bundle/index.ts'),
  },
  'connect-time remove': {
    group: 'node',
    summary: 'Remove the programs of connect-time translation',
    meaning:
      'Remove the programs of connect-time translation from this node, and no rules: before or ' +
      'after going back to kube-proxy. Needs no running Fairlead, and refuses while one uses them.',
    exitCodes: '0 none is left, 1 some may be left or are in use, 2 wrong usage',
    flags: {
      ...serverFlags,
      'dry-run': { shown: '', meaning: 'Print what would be removed, and remove nothing.' },
      'ignore-other-instance': {
        shown: '',
        meaning:
          'Remove them although a Fairlead runs that uses them: it attaches them again within seconds.',
      },
    },
    examples: ['fairlead connect-time remove --dry-run'],
    load: () => import('./connect-time.ts'),
  },
  'tables remove': {
    group: 'node',
    summary: 'Remove what is left after going back to kube-proxy',
    meaning:
      'Remove the tables of mode nftables, of the fast path and of failure detection, our chain in ' +
      'the table kube-proxy, and the programs of connect-time translation, from a node that ' +
      'kube-proxy serves again. What kube-proxy may use as well stays: chains of mode iptables, ' +
      'virtual services of mode ipvs. Waits 30 s for a Fairlead to end.',
    exitCodes: '0 removed or not there, 1 some may be left or are in use, 2 wrong usage',
    flags: {
      'dry-run': { shown: '', meaning: 'Print what would be removed, and remove nothing.' },
    },
    examples: ['fairlead tables remove --dry-run'],
    load: () => import('./tables.ts'),
  },
  run: {
    group: 'node',
    summary: 'Proxy the Services of this node',
    meaning: 'Proxy the Services of this node. The word run may be left out.',
    takesRunFlags: true,
    isRaw: true,
    examples: ['fairlead run --config /var/lib/kube-proxy/config.conf'],
    load: () => import('./run.ts'),
  },
  cluster: {
    group: 'other',
    summary: 'Print kubectl fairlead, which asks all nodes',
    meaning:
      'Print the kubectl plugin of this release, a shell script: it asks the Fairlead of every node, ' +
      'with the rights of whoever runs it.',
    examples: ['fairlead cluster > kubectl-fairlead'],
    load: () => import('./cluster.ts'),
  },
  'config validate': {
    group: 'other',
    summary: 'Check a configuration file',
    meaning:
      'Check a KubeProxyConfiguration, or a ConfigMap that contains one, as --config does. ' +
      'FILE may be - for standard input.',
    exitCodes: '0 valid, 1 not valid, 2 wrong usage',
    arguments: 'FILE',
    argumentCount: [1, 1],
    offers: 'files',
    examples: [
      'fairlead config validate config.conf',
      'kubectl -n kube-system get configmap kube-proxy -o yaml | fairlead config validate -',
    ],
    load: () => import('./config.ts').then(({ runValidate }) => ({ run: runValidate })),
  },
  'config convert': {
    group: 'other',
    summary: 'Convert other configurations to kube-proxy’s',
    meaning: 'Print FILE as a KubeProxyConfiguration; report each translated field on stderr.',
    exitCodes: '0 success, 1 failure, 2 wrong usage',
    arguments: `--from ${importSources.join('|')} FILE`,
    argumentCount: [1, 1],
    offers: 'files',
    flags: {
      from: { shown: importSources.join('|'), meaning: 'Form of FILE.', values: importSources },
    },
    examples: ['fairlead config convert --from openshift network.yaml'],
    load: () => import('./config.ts').then(({ runConvert }) => ({ run: runConvert })),
  },
  completion: {
    group: 'other',
    summary: 'Print a completion script for a shell',
    arguments: shells.join('|'),
    argumentCount: [1, 1],
    offers: shells,
    examples: ['source <(fairlead completion bash)', 'fairlead completion fish | source'],
    load: () => import('./completion.ts'),
  },
  version: {
    group: 'other',
    summary: 'Print the version',
    flags: { output: outputFlag('text', 'json', 'jsonpath=') },
    examples: ['fairlead version', 'fairlead version -o json'],
    load: () => import('./version.ts'),
  },
  help: {
    group: 'other',
    summary: 'Print this text, or the help of a command',
    meaning: 'Print the commands, or the help of one; "flags" are the flags of fairlead run.',
    arguments: '[COMMAND|flags]',
    isRaw: true,
    examples: ['fairlead help', 'fairlead help service show', 'fairlead help flags'],
    load: () => import('./help-command.ts'),
  },
  __complete: {
    summary: 'Print what may come next on a command line, for shells',
    isRaw: true,
    examples: [],
    load: () => import('./complete.ts'),
  },
  'node-report': {
    summary: 'Print what kubectl fairlead asks of each node',
    arguments: `${reports.join('|')} [SUBJECT]`,
    argumentCount: [1, 2],
    flags: {
      ...serverFlags,
      count: { shown: 'N', meaning: 'Number of packets to trace (default 1).' },
    },
    examples: [],
    load: () => import('./report/index.ts'),
  },
  'test-server': {
    summary: 'Answer clients of kubectl fairlead test, and connect for them to these',
    arguments: '[ADDRESS/PORT…]',
    argumentCount: [0, 2],
    examples: [],
    load: () => import('./connectivity.ts').then(({ runServer }) => ({ run: runServer })),
  },
  'test-client': {
    summary: 'Try the Services of kubectl fairlead test',
    arguments: 'pod|node NODE',
    argumentCount: [2, 2],
    flags: {
      facts: { shown: 'FOLDER', meaning: 'What there is to try (default /facts).' },
      message: { shown: 'FILE', meaning: 'Write the report there (default: standard output).' },
    },
    examples: [],
    load: () => import('./connectivity.ts').then(({ runClient }) => ({ run: runClient })),
  },
};

export const commands: readonly Command[] = Object.entries(table).map(([words, command]) => {
  return { words: words.split(' '), ...command };
});

/** The commands for people. */
export const shownCommands = commands.filter(({ group }) => group !== undefined);

/** First words, without repetitions. */
export const commandNames: readonly string[] = [
  ...new Set(shownCommands.map(({ words }) => words[0]!)),
];

/** The commands that begin with this word. */
export function commandsNamed(word: string): Command[] {
  return commands.filter((command) => isCalled(command, 0, word));
}

/** Whether `word` is the command's word at this position, or an alias of it. */
export function isCalled({ aliases, words }: Command, position: number, word: string): boolean {
  return words[position] === word || aliases?.[position]?.includes(word) === true;
}

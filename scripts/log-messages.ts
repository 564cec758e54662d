/**
 * Every message of the log: what it means, and what an operator does about it. docs/logs.md is
 * made from this table; a test compares it with the calls in `src`.
 */

import { type NoticeKind, type NoticeRow, noticeTable } from '../src/sync/notices.ts';

export type Level = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal';

export interface LogMessage {
  /** As it is logged. `…` stands for a part that varies. */
  readonly message: string;
  readonly levels: readonly Level[];
  /** The fields of the line, without `time`, `level` and `msg`. */
  readonly fields: string;
  /** Empty: the message says it all. */
  readonly meaning: string;
  /** Empty: nothing is to be done. */
  readonly action: string;
}

type Row = readonly [
  message: string,
  levels: Level | readonly Level[],
  fields: string,
  meaning?: string,
  action?: string,
];

/** Those about Services, from the program's own table. */
const noticeRows = Object.values<NoticeRow>(noticeTable).map(
  ({ action, fields = 'service, err', level = 'warn', meaning, message }) =>
    [message as NoticeMessage, level as Level, fields, meaning, action] as const,
);
type NoticeMessage = (typeof noticeTable)[NoticeKind]['message'];

const rows = {
  'Start, configuration and stop': [
    ['Starting', 'info', 'version, node'],
    ['Flag value', 'info', 'flag, value', 'At `-v=1` and higher.'],
    [
      'Configuration warning',
      'warn',
      'err',
      'A setting is deprecated, unknown, given twice or without effect.',
      'Correct what `err` names.',
    ],
    [
      'Configuration may be incomplete or incorrect',
      'warn',
      'err',
      'It does not fit this node, for example an IP family without addresses.',
      'Compare `err` with the Node object.',
    ],
    ['Using IP families', 'info', 'families, primary', '`primary`: the family of the node IP.'],
    [
      'IP family was enabled; serving it from now on',
      'info',
      'families',
      'The kernel had it disabled.',
    ],
    ['Using … Proxier', 'info', 'mode, node', 'As kube-proxy says it.'],
    [
      'Could not read sysctl; taking it as it was',
      'warn',
      'err',
      'The process or machine lacks descriptors or memory.',
      'Raise the limit, or find who uses it up.',
    ],
    [
      'Could not read IP families; trying again',
      'debug',
      'err',
      'The process or machine lacks descriptors or memory. The next attempt is in 5 s.',
    ],
    [
      'Could not read interfaces; keeping the last addresses',
      'warn',
      'err',
      'The process or machine lacks descriptors or memory. Addresses are read every 5 s.',
      'Raise the limit, or find who uses it up.',
    ],
    [
      'Could not review a token; refusing clients of other machines',
      'warn',
      'err',
      'The API server does not answer, or forbids reviews (`readBindAddress`). Logged once.',
      'Give Fairlead the role `system:auth-delegator`, as the chart does with `reader.enabled`.',
    ],
    [
      'Could not read ports of programs; external IPs may take them',
      'warn',
      'err',
      'Without inet_diag, an external IP that is the node’s own address takes all its ports, as with kube-proxy.',
      'Load the module, or set `--external-ip-cidrs`.',
    ],
    [
      'Could not watch interfaces; reading them every 5 s',
      'warn',
      'err',
      'The process or machine lacks descriptors or memory.',
      'Raise the limit, or find who uses it up.',
    ],
    ['Read interfaces again', 'info', ''],
    [
      'Falling back to another mode',
      'warn',
      'from, to, reason',
      '`reason`: what the kernel lacks for the configured mode.',
      'Load the module or change the mode (`fairlead preflight`).',
    ],
    [
      'Mode is empty; treating packets as in mode iptables',
      'info',
      '',
      'Mode nftables runs, with the packet semantics of mode iptables.',
      'See [migrating](migrating.md); `mode: nftables` ends it.',
    ],
    [
      "Mode is empty, but kube-proxy's default is not possible; using nftables",
      'warn',
      'err',
      '`err`: the extensions of iptables that the kernel lacks.',
      'Load the modules, or set `mode: nftables`.',
    ],
    ['Waiting for the Node to exist: …', 'warn', 'node', '', 'Correct `--hostname-override`.'],
    [
      'Timed out waiting for node to …',
      'error',
      'node',
      'After 30 s the start continues without its addresses.',
      'Check the kubelet and the name.',
    ],
    [
      'Another instance runs in this network namespace; waiting for it to exit',
      'warn',
      'other, waitMs',
      'After `waitMs` the start fails.',
      'Stop the process `other`.',
    ],
    [
      'Another instance runs in this network namespace; ignoring it',
      'warn',
      'other',
      '`--ignore-other-instance` is set.',
      'Let only one of the two write rules.',
    ],
    [
      'Could not check for another running instance; continuing',
      'warn',
      'err',
      '',
      'Look for a holder of the abstract socket `@fairlead`.',
    ],
    ['Set sysctl', 'info', 'path, from, to'],
    ['Sysctl already set', 'info', 'path, from, to'],
    [
      'Could not set sysctl; leaving it unchanged',
      'warn',
      'path, to, err',
      '/proc/sys is read-only, or a capability is missing.',
      'Set it on the node, or run `--init-only` with privileges first.',
    ],
    [
      'Could not set the OOM score; leaving it unchanged',
      'debug',
      'err',
      'CAP_SYS_RESOURCE is missing.',
    ],
    ['System initialized and --init-only specified', 'info', ''],
    ['Reloaded configuration file; nothing changed', 'info', ''],
    ['Applied the changed configuration', 'info', 'fields'],
    [
      'Configuration changed; restarting the process',
      'info',
      'fields, restart',
      '`restart`: the fields that need it. The supervisor starts the process again.',
    ],
    [
      'Invalid configuration file; keeping the current configuration',
      'error',
      'err',
      '',
      'Correct what `err` names; `fairlead config validate FILE` checks it.',
    ],
    [
      'Could not apply the changed configuration',
      'error',
      'fields, err',
      'The earlier values stay in force.',
      'Correct what `err` names, or restart the process.',
    ],
    ['Ignoring SIGHUP: there is no configuration file', 'info', ''],
    ['Stopping', 'info', 'signal'],
    ['Stopped; rules stay in place', 'info', ''],
    ['Exiting', 'fatal', 'err', '', 'Correct what `err` names.'],
    [
      'Unexpected error; exiting',
      'fatal',
      'err',
      'A defect. The supervisor starts the process again.',
      'Report the stack in `err`.',
    ],
    ['Warning from Node.js', 'warn', 'name, err', '', 'Report it if it comes back.'],
  ],
  'The API server and objects': [
    ['First list complete', 'info', 'resource'],
    [
      'Still waiting for the first list',
      ['warn', 'error'],
      'resource, seconds, err',
      'No rules are written before. An error after 60 s.',
      '[Runbook](runbook.md#the-api-server-is-gone).',
    ],
    [
      'Lost the API server; rules stay in force',
      'warn',
      'server, err',
      'All watches have failed. They are tried again.',
      '[Runbook](runbook.md#the-api-server-is-gone).',
    ],
    [
      'API server still does not answer; changes are missing',
      'error',
      'server, err, seconds',
      'After two minutes, then less often.',
      '[Runbook](runbook.md#the-api-server-is-gone).',
    ],
    ['API server answers again', 'info', 'server, seconds', '`seconds`: how long it was lost.'],
    [
      'Watch is silent',
      'error',
      'resource, seconds, err',
      'Two minutes without even a bookmark.',
      '[Runbook](runbook.md#a-watch-is-silent).',
    ],
    ['Watch delivers again', 'info', 'resource, seconds', '`seconds`: how long it was silent.'],
    ['Using list method', 'info', 'resource, method', 'As a stream or in pages.'],
    [
      'Falling back to list method',
      'warn',
      'resource, method, err',
      'The server refused the better one. Nothing is lost.',
    ],
    [
      'Error reading objects',
      'warn',
      'subject, field, err',
      'An object or answer of the API server is unusable. The rest continues.',
      'Correct `field` of `subject`.',
    ],
    [
      'Corrected objects that had changed without an event',
      'warn',
      'subject, corrected',
      'Watches had missed them, as after etcd was restored.',
    ],
    [
      'Suppressed repeated reports',
      'warn',
      'subject, reason, count',
      'They are of the same kind and about the same object.',
    ],
    [
      'Could not send Events to the API server',
      'warn',
      'err',
      'Services are not affected.',
      'Check the role `system:node-proxier`.',
    ],
    ['Node is being deleted', 'info', ''],
    ['NodeIPs changed for the node; updating rules', 'info', 'from, to'],
    [
      'PodCIDRs changed for the node; updating rules',
      'info',
      'from, to',
      'Rules recognise local pods by them.',
    ],
    [
      'PodCIDRs changed for the node; keeping the rules',
      'error',
      'from, to, err',
      'The new ones cannot be served.',
      'Compare `err` with the Node object.',
    ],
  ],
  Services: [
    [
      'Service port changed in the kernel',
      'trace',
      'service, port, family, what, before, after, added, removed, also, latencyMs',
    ],
    [
      'Kernel rejected Service port; continuing without it',
      'error',
      'service, port, family, err, attempts, retryMs',
      'All others are programmed.',
      '[Runbook](runbook.md#the-kernel-refuses-a-service).',
    ],
    ['Service port programmed again', 'info', 'service, port, family, attempts'],
    ...noticeRows,
    ['Reading again the objects that were left out', 'info', '', 'Memory has room again.'],
    [
      'Service address belongs to this machine; serving only its ports there',
      'warn',
      'service, port, family, err',
      'Mode ipvs does not bind the address of another interface.',
      'Use another address.',
    ],
    [
      'Could not listen on health-check node port; retrying',
      'warn',
      'service, port, err, retryMs',
      'Load balancers cannot ask for endpoints of this node.',
      'Find who has the port: `ss -tlnp`.',
    ],
    [
      'Opened health-check node port',
      ['debug', 'info'],
      'service, port, family',
      'Info if that had failed.',
    ],
    ['Closed health-check node port', 'debug', 'service, port, family'],
    [
      'Could not listen on the loopback address for node port; retrying',
      'warn',
      'service, port, family, err, retryMs',
      '',
      'Find who has the port: `ss -tlnp`.',
    ],
    ['Listening on the loopback address for node port', 'info', 'service, port, family'],
    [
      'Refused client of a socket: too many file descriptors',
      'warn',
      'frontend, client, bound, descriptorsMax',
      '`bound`: whose limit, of all sockets, a frontend or a client. A new connection, or the oldest of whoever has most, was closed, or a datagram dropped.',
      'Find what `client` does, or endpoints that lead back to a node port; or raise the limit of open files.',
    ],
    [
      'Reset connection of a socket: too many bytes wait in buffers',
      'warn',
      'frontend, client, bound, bytesMax',
      '`bound`: whose limit, of all connections, a frontend or a client. The stalled connection with most bytes was reset.',
      'Check why `client` or the endpoints do not read.',
    ],
  ],
  'The kernel': [
    ['Sync queued', 'trace', 'family'],
    [
      'Applied batch',
      'debug',
      'family, purpose, forwardings, writes, bytes, applyMs, sinceChangeMs',
    ],
    [
      'Sync finished',
      'debug',
      'family, purpose, ok, durationMs',
      'Every change is in the kernel, or rejected.',
    ],
    [
      'Ready',
      'info',
      'services, servicePorts, families, seconds',
      'All that was listed is in force. `seconds`: since the process began.',
    ],
    [
      'Kernel state verified',
      'info',
      'family, purpose, durationMs',
      'It was read, compared and repaired where it differed.',
    ],
    [
      'Updated kernel state at start',
      'info',
      'family, added, changed, removed',
      'What differed from what an earlier process left.',
    ],
    ['Audit finished', 'debug', 'family, durationMs', 'The periodic comparison.'],
    ['No other program can change our table', 'info', 'family', 'Linux 6.9 and newer protect it.'],
    [
      'Watching tables that other programs can change',
      'info',
      'family, tables',
      'They cannot be protected; changes are noticed and repaired.',
    ],
    [
      'Failed to watch tables, comparing them now; retrying',
      'warn',
      'family, tables, err, retryMs',
      'Until the watch begins again, only audits find changes by others.',
      'Often a limit of descriptors or memory.',
    ],
    [
      'Repaired rules that another program changed',
      'warn',
      'family, purpose, missing, wrong, unwanted, program, pid',
      '',
      '[Runbook](runbook.md#another-program-changes-the-rules).',
    ],
    [
      'Repaired rules that differ from what was programmed',
      'warn',
      'family, purpose, missing, wrong, unwanted',
      'Who changed them is not known.',
      '[Runbook](runbook.md#another-program-changes-the-rules).',
    ],
    [
      'Repaired rules that differ although no other program changed them',
      'error',
      'family, purpose, missing, wrong, unwanted',
      'A defect.',
      'Report the lines around it.',
    ],
    ['Repaired kernel state after a rejected batch', 'info', 'family, missing, wrong, unwanted'],
    [
      'Element counts differ from the expected ones; starting a full comparison',
      'warn',
      'family, miscounts',
      '',
      'See the next “Repaired rules”.',
    ],
    [
      'Kernel rejected batch',
      'debug',
      'family, purpose, err',
      'The batch is split to find the rejected Service port.',
    ],
    [
      'Another program changed rules during a sync; reading kernel state again',
      'debug',
      'family, purpose, err, retryMs',
      'Rules changed between reading and writing, so that the kernel rejected a batch.',
    ],
    [
      'Sync failed; reading kernel state before retrying',
      'error',
      'family, purpose, err, retryMs',
      'No single Service explains the rejection.',
      '[Runbook](runbook.md#changes-come-late).',
    ],
    [
      'Waiting for another process to end',
      ['warn', 'debug'],
      'family, err, retryMs',
      'The other process owns our table.',
      'Stop it; `nft list tables` names the owner.',
    ],
    [
      'Could not delete expired elements; retrying',
      'debug',
      'family, err, retryMs',
      'It may have expired before.',
    ],
    ['Could not delete unused objects; retrying', 'warn', 'family, err, retryMs'],
    ['Could not count bytes; trying again', 'warn', 'err', 'What ends now is missing.'],
    [
      'Could not read named counters',
      'warn',
      'err',
      'Their metrics are missing.',
      'Load `nfnetlink_acct`, or ignore it.',
    ],
  ],
  'Connection tracking': [
    [
      'Conntrack table is nearly full',
      'warn',
      'entries, limit, dropped, evicted, services, others',
      'When it is full, new connections are dropped.',
      '[Runbook](runbook.md#connection-tracking-is-full).',
    ],
    ['Conntrack table has room again', 'info', 'entries, limit', 'For five minutes.'],
    [
      'Conntrack cleanup done',
      ['debug', 'info'],
      'family, protocol, examined, deleted, durationMs',
      'Info if the one before had failed.',
    ],
    ['Deleted conntrack entry', 'trace', 'family, entry'],
    [
      'Could not clean up conntrack entries; retrying',
      'warn',
      'family, protocol, err, retryMs',
      'UDP clients may still reach old endpoints.',
    ],
    [
      'Could not clean up conntrack entries; leaving them',
      'warn',
      'family, protocol, err',
      'The kernel cannot list or delete them.',
      'Add what is missing, such as a capability.',
    ],
    [
      'Connection ended',
      'info',
      'service, port, client, frontend, endpoint, outcome, durationMs, bytesIn, bytesOut',
      'The flow log. `outcome`: `answered`, `reset` or `no answer`.',
    ],
    [
      'Ended connections without a line of their own',
      'info',
      'flows',
      'The flow log has a hundred lines a second, chosen by chance.',
    ],
  ],
  'Taking over': [
    [
      'Took over from kube-proxy; removed its rules',
      'info',
      'family, backend, tables, chains, jumps',
      'Ours were verified before.',
    ],
    [
      'Removed kube-proxy rules that reappeared; is kube-proxy still running?',
      'warn',
      'family, backend, tables, chains, jumps',
      '',
      'Stop kube-proxy on this node.',
    ],
    [
      'Keeping kube-proxy chains that other rules still reference',
      'warn',
      'family, backend, kept',
      '',
      'Remove the rules in `kept`.',
    ],
    [
      "Removed kube-proxy's IPVS services, except those with active connections",
      'info',
      'virtualServices, sets, draining, foreign, keptSets',
      'These are removed when their connections end.',
    ],
    ["Removed kube-proxy's named counters", 'info', 'counters'],
    ['Took over from another mode; removed its objects', 'info', 'mode, by, objects, first'],
    [
      'Previous mode still has active connections; removing its objects when they end',
      'info',
      'mode, connections',
    ],
    [
      'Could not remove objects of the previous proxy; retrying',
      'warn',
      'of, err, retryMs',
      '',
      'If it continues, see `err`.',
    ],
    [
      'Replacing a table of our name that another program created',
      'warn',
      'table, objects, first',
      '',
      'Rename the other table.',
    ],
    [
      'Rules of iptables-legacy are active in addition to ours',
      'warn',
      'note',
      'A `DROP` of either backend is final.',
      'Let the programs in `note` use iptables-nft.',
    ],
  ],
  'Failure detection': [
    [
      'Counting answers of endpoints',
      'info',
      'services, endpoints',
      'Failure detection has started.',
    ],
    [
      'Failed to count answers of endpoints; only probes show which answer',
      'warn',
      'err',
      'The kernel refuses the table, or another program has its name. Endpoints without probes are not followed.',
      'Correct what `err` names, or set `failureDetection: off`.',
    ],
    [
      'Failed to try a connection to an endpoint, which says nothing about it',
      'warn',
      'err, endpoint',
      'This node lacks descriptors, memory, ports or a right. Such probes do not count. Logged once for each errno.',
      'Raise the limit or add the right.',
    ],
    [
      'No endpoint of another node answers',
      'warn',
      '',
      'With `healthzNetwork` /healthz fails.',
      'Check the network of this node, and policies against nodes.',
    ],
    ['Endpoints of other nodes answer again', 'info', ''],
    [
      'Endpoint does not answer; it gets no new connections',
      'warn',
      'service, port, family, endpoint, unanswered',
      'Others of the Service port answered. Probes continue.',
      'Check the endpoint and the way to it: `fairlead service check`.',
    ],
    [
      'Endpoint gets new connections again',
      'info',
      'service, port, family, endpoint, because, outMs',
      '`because`: `answer`, it answers; `trial`, clients try it; `exempt`, it is not a pod.',
    ],
    ['Removed the table of failure detection', 'info', 'table', 'No Service asks for it any more.'],
  ],
  'Fast path': [
    [
      'Using fast path',
      'info',
      'packets, devices',
      'Connections move to a flowtable after `packets` packets.',
    ],
    [
      'Fast path unavailable; using the rules',
      'warn',
      'err',
      'Kernel, mode, devices or another program prevent it.',
      'Correct what `err` names, or set `fastPath: off`.',
    ],
    ['Kernel rejected fast path device; using the rules', 'warn', 'device, err'],
    [
      'Repaired fast path that another program changed',
      'warn',
      'table',
      '',
      'Find the program that changes `table`.',
    ],
    [
      'Could not update fast path; trying again',
      'error',
      'err',
      'New devices may be missing.',
      'If it continues, see `err`.',
    ],
    ['Removed fast path', 'info', 'table'],
  ],
  'Limits of connections': [
    [
      'Connection limits unavailable',
      'warn',
      'err',
      'Services are not limited.',
      'Correct what `err` names.',
    ],
    [
      'Repaired connection limits that another program changed',
      'warn',
      'table',
      '',
      'Find the program that changes `table`.',
    ],
    [
      'Could not update connection limits; trying again',
      'error',
      'err',
      '',
      'If it continues, see `err`.',
    ],
    ['Removed connection limits', 'info', ''],
  ],
  'Connect-time translation': [
    [
      'Connect-time translation is unavailable; using packet rules only',
      'warn',
      'connectTime, err',
      'Kernel or container lack what it needs.',
      'Mount what is missing, or set `connectTime: off`.',
    ],
    ['Removed connect-time programs', 'info', 'directory', 'Of an earlier configuration.'],
    [
      'Could not remove connect-time programs',
      'error',
      'err',
      'The programs may still translate connections.',
      'Run `fairlead connect-time remove` on the node.',
    ],
    [
      'Detached connect-time programs that no process updates',
      'info',
      'programs',
      'An earlier process left them, with pins out of reach.',
      '`rm -r /sys/fs/bpf/fairlead` on the node frees their memory.',
    ],
    [
      'Connect-time programs that no process updates are attached',
      'error',
      'programs, err',
      'They may send connections to endpoints that no longer exist. Detaching is tried every minute.',
      'Run `fairlead connect-time remove` on the node.',
    ],
    [
      'Attached programs may be connect-time programs of an earlier process',
      'warn',
      'attached',
      'They may be of another agent. The answer needs `CAP_SYS_ADMIN`, or the mount `/sys/fs/bpf/fairlead`.',
      'Run `fairlead connect-time remove --dry-run` on the node.',
    ],
    [
      'Could not check for connect-time programs of an earlier process',
      'info',
      'err',
      'The process may not ask the kernel.',
      'If connect-time translation was on before: `fairlead connect-time remove --dry-run` on the node.',
    ],
    [
      'Failed to renew the lease of connect-time programs',
      'warn',
      'family, leftMs, err',
      'When the lease ends, in `leftMs`, rules handle all connections. It is tried again before.',
      'Correct what `err` names; look for failed syncs.',
    ],
    [
      'Lease of connect-time programs expired; comparing maps to renew it',
      'warn',
      'family',
      'Process or machine stopped longer than the lease. Rules handle connections until then.',
      'If it happens often, give the process more CPU time.',
    ],
    [
      'Connect-time map is full; Service is handled by packet rules only',
      'warn',
      'service, family, frontends, endpoints',
      'It does not fit, or its namespace has half of the map.',
    ],
    ['Updated connect-time maps', 'debug', 'family, purpose, forwardings, writes, bytes, applyMs'],
    [
      'Updated connect-time maps at start',
      'debug',
      'family, missing, wrong, unwanted',
      'What differed from what an earlier process left.',
    ],
    [
      'Failed to update connect-time maps; packet rules handle what they lack',
      'warn',
      'family, purpose, err, retryMs',
      'They are read and repaired after `retryMs`.',
      'If it continues, correct what `err` names. Without memory, the maps get fewer Services.',
    ],
    [
      'Failed to update table filter; a host firewall may drop health checks',
      'warn',
      'family, purpose, err, retryMs',
      'Mode is empty, and its rules past a firewall of the host were refused.',
    ],
    [
      'Kernel rejected rule for health checks in table filter; Service port is served',
      'warn',
      'service, port, family, err, attempts, retryMs',
      'A firewall of the host may drop health checks of its load balancer.',
    ],
    ['Rule for health checks is in table filter again', 'info', 'service, port, family, attempts'],
    [
      'Kernel rejected Service port in connect-time maps; packet rules handle it',
      'warn',
      'service, port, family, err, attempts, retryMs',
    ],
    ['Service port is in the connect-time maps again', 'info', 'service, port, family, attempts'],
    [
      'Repaired connect-time maps that differ from what was programmed',
      'warn',
      'family, missing, wrong, unwanted',
      'Another program changed elements, or detached programs.',
      'Find who writes below `/sys/fs/bpf/fairlead`.',
    ],
    ['Service is in the connect-time map again', 'info', 'service, family, frontends, endpoints'],
    ['Read the pods to exclude from connect-time translation', 'info', ''],
    [
      'Could not read the pods to exclude from connect-time translation',
      'warn',
      'err, fallback',
      'Until they are known, pods are handled as `fallback` says.',
      'Let the account list and watch pods (chart: `excludedPods: true`).',
    ],
    [
      'Too many pods to exclude from connect-time translation',
      'warn',
      'cgroups, max',
      '',
      'Choose a narrower selector.',
    ],
  ],
  'Log and servers': [
    [
      'HTTP thread ended; starting another one',
      'error',
      'err',
      'This thread answers health, metrics and questions.',
      'Report `err`.',
    ],
    [
      'Server failed',
      'error',
      'err',
      'It could not listen on a port, and tries again.',
      'Find who has the port: `ss -tlnp`.',
    ],
    [
      'Dropped log lines because nothing read them in time',
      'warn',
      'count',
      'The reader had stopped, or its disk was full.',
      'Check the container runtime and its disk.',
    ],
  ],
} as const satisfies Readonly<Record<string, readonly Row[]>>;

type Rows = typeof rows;

/** A message as it is in a line of the log: a test that waits for another one has a wrong type. */
export type LoggedMessage = WithParts<Rows[keyof Rows][number][0]>;

/** What stands for the parts that vary is any text. */
type WithParts<Text extends string> = Text extends `${infer Before}…${infer After}`
  ? `${Before}${string}${WithParts<After>}`
  : Text;

export const logTopics: Readonly<Record<string, readonly LogMessage[]>> = Object.fromEntries(
  Object.entries<readonly Row[]>(rows).map(([topic, all]) => [topic, all.map(messageOf)]),
);

/** All messages of all topics. */
export const logMessages: readonly LogMessage[] = Object.values(logTopics).flat();

function messageOf([message, levels, fields, meaning = '', action = '']: Row): LogMessage {
  return {
    message,
    levels: typeof levels === 'string' ? [levels] : levels,
    fields,
    meaning,
    action,
  };
}

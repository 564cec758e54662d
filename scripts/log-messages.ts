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
  readonly meaning: string;
  /** Empty: nothing is to be done. */
  readonly action: string;
}

type Row = readonly [
  message: string,
  levels: Level | readonly Level[],
  fields: string,
  meaning: string,
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
    ['Starting', 'info', 'version, node', 'The process has read its configuration and starts.'],
    [
      'Flag value',
      'info',
      'flag, value',
      'A flag of the command line and its value, at `-v=1` and higher.',
    ],
    [
      'Configuration warning',
      'warn',
      'err',
      'A setting is deprecated, unknown, given twice or without effect. The rest is used.',
      'Correct the field or flag that `err` names.',
    ],
    [
      'Configuration may be incomplete or incorrect',
      'warn',
      'err',
      'The configuration does not fit this node, for example an IP family without addresses.',
      'Compare `err` with the Node object and the configuration.',
    ],
    [
      'Using IP families',
      'info',
      'families, primary',
      'The IP families that are served; `primary` is the family of the node IP.',
    ],
    [
      'IP family was enabled; serving it from now on',
      'info',
      'families',
      'The kernel had an IP family disabled. Rules for Services in it follow.',
    ],
    ['Using … Proxier', 'info', 'mode, node', 'The mode that runs, in the words of kube-proxy.'],
    [
      'Could not read sysctl; taking it as it was',
      'warn',
      'err',
      'The process or the machine lacks file descriptors or memory.',
      'Raise the limit that `err` names, or find who uses it up.',
    ],
    [
      'Could not read IP families; trying again',
      'debug',
      'err',
      'The process or the machine lacks file descriptors or memory. It is looked every 5 s whether a family that was disabled is enabled.',
    ],
    [
      'Could not read interfaces; keeping the last addresses',
      'warn',
      'err',
      'The process or the machine lacks file descriptors or memory. Addresses are read again every 5 s.',
      'Raise the limit that `err` names, or find who uses it up.',
    ],
    [
      'Could not review a token; refusing clients of other machines',
      'warn',
      'err',
      'A client asks at `readBindAddress`, and the API server does not answer, or does not let Fairlead create tokenreviews and subjectaccessreviews. Logged once until a review succeeds.',
      'Bind the account of Fairlead to the role `system:auth-delegator`, as the chart does with `reader.enabled`.',
    ],
    [
      'Could not read ports of programs; external IPs may take them',
      'warn',
      'err',
      'The kernel does not show sockets (inet_diag). An external IP that is an address of the node takes all ports there, as with kube-proxy.',
      'Load the module, or restrict external IPs by `--external-ip-cidrs`.',
    ],
    [
      'Could not watch interfaces; reading them every 5 s',
      'warn',
      'err',
      'The process or the machine lacks file descriptors or memory. Until it is watched again, the kernel does not say when addresses change.',
      'Raise the limit that `err` names, or find who uses it up.',
    ],
    ['Read interfaces again', 'info', '', 'The addresses of this machine are known again.'],
    [
      'Falling back to another mode',
      'warn',
      'from, to, reason',
      'The kernel lacks what the configured mode needs; `reason` names it.',
      'Load the module or change the mode; `fairlead preflight` lists what is missing.',
    ],
    [
      'Mode is empty; treating packets as in mode iptables',
      'info',
      '',
      'Mode nftables runs, and keeps what kube-proxy does with packets by default.',
      'See docs/migrating.md; `mode: nftables` leaves it out.',
    ],
    [
      "Mode is empty, but kube-proxy's default is not possible; using nftables",
      'warn',
      'err',
      'The kernel lacks extensions of iptables, which `err` names: packets meet what mode nftables does.',
      'Load the modules, or ask for `mode: nftables`.',
    ],
    [
      'Waiting for the Node to exist: …',
      'warn',
      'node',
      'The API server has no Node of this name.',
      'Give the right name with `--hostname-override`.',
    ],
    [
      'Timed out waiting for node to …',
      'error',
      'node',
      'The Node did not exist, or had no addresses, within 30 s. The start continues without them.',
      'Check the kubelet and the node name.',
    ],
    [
      'Another instance runs in this network namespace; waiting for it to exit',
      'warn',
      'other, waitMs',
      'Two instances would undo each other. After `waitMs` the start fails.',
      'Stop the process that `other` names if it does not stop by itself.',
    ],
    [
      'Another instance runs in this network namespace; ignoring it',
      'warn',
      'other',
      '`--ignore-other-instance` is set.',
      'Make sure that only one of the two writes rules.',
    ],
    [
      'Could not check for another running instance; continuing',
      'warn',
      'err',
      'The lock of the network namespace could not be used.',
      'Look for a program that holds the abstract socket `@fairlead`.',
    ],
    ['Set sysctl', 'info', 'path, from, to', 'A sysctl had another value and was set.'],
    ['Sysctl already set', 'info', 'path, from, to', 'A sysctl has the desired value.'],
    [
      'Could not set sysctl; leaving it unchanged',
      'warn',
      'path, to, err',
      '/proc/sys is read-only, or a capability is missing.',
      'Set it on the node, or run `--init-only` with privileges before.',
    ],
    [
      'Could not set the OOM score; leaving it unchanged',
      'debug',
      'err',
      'The process lacks CAP_SYS_RESOURCE. The kernel may end it earlier when memory is short.',
    ],
    [
      'System initialized and --init-only specified',
      'info',
      '',
      'The sysctls are set, and the process exits, as asked.',
    ],
    [
      'Reloaded configuration file; nothing changed',
      'info',
      '',
      'The file was written again with the same content.',
    ],
    [
      'Applied the changed configuration',
      'info',
      'fields',
      'These fields changed and are in force without a restart.',
    ],
    [
      'Configuration changed; restarting the process',
      'info',
      'fields, restart',
      'The fields in `restart` need a new process; its supervisor starts it.',
    ],
    [
      'Invalid configuration file; keeping the current configuration',
      'error',
      'err',
      'The changed file cannot be used.',
      'Correct what `err` names; `fairlead config validate FILE` checks a file.',
    ],
    [
      'Could not apply the changed configuration',
      'error',
      'fields, err',
      'The changed fields could not be applied; the ones before stay in force.',
      'Correct what `err` names, or restart the process.',
    ],
    [
      'Ignoring SIGHUP: there is no configuration file',
      'info',
      '',
      'SIGHUP reads the configuration file again, and the process runs without one.',
    ],
    ['Stopping', 'info', 'signal', 'The process received SIGTERM or SIGINT.'],
    ['Stopped; rules stay in place', 'info', '', 'The process exits; Services continue to work.'],
    [
      'Exiting',
      'fatal',
      'err',
      'The process cannot run; `err` has the reason.',
      'Correct what `err` names.',
    ],
    [
      'Unexpected error; exiting',
      'fatal',
      'err',
      'A defect. The supervisor starts the process again; rules stay in place.',
      'Report the stack in `err`.',
    ],
    [
      'Warning from Node.js',
      'warn',
      'name, err',
      'A warning of the runtime.',
      'Report it if it comes back.',
    ],
  ],
  'The API server and objects': [
    [
      'First list complete',
      'info',
      'resource',
      'All objects of this resource have been read once.',
    ],
    [
      'Still waiting for the first list',
      ['warn', 'error'],
      'resource, seconds, err',
      'Rules are not written before Services and EndpointSlices have been listed once. An error after 60 s.',
      'See [The API server is gone](runbook.md#the-api-server-is-gone).',
    ],
    [
      'Watch is silent',
      'error',
      'resource, seconds, err',
      'The watch has received nothing for two minutes, not even a bookmark.',
      'See [A watch is silent](runbook.md#a-watch-is-silent).',
    ],
    [
      'Using list method',
      'info',
      'resource, method',
      'How this resource is listed: as a stream or in pages.',
    ],
    [
      'Falling back to list method',
      'warn',
      'resource, method, err',
      'The server refused the better method; `err` has its words. Nothing is lost.',
    ],
    [
      'Error reading objects',
      'warn',
      'subject, field, err',
      'An object, or an answer of the API server, could not be used. The rest continues.',
      'Correct the field of the object that `subject` names.',
    ],
    [
      'Suppressed repeated reports',
      'warn',
      'subject, reason, count',
      'Further reports of the same kind about the same object were left out.',
    ],
    [
      'Could not send Events to the API server',
      'warn',
      'err',
      'Users do not see Events of this node; Services are not affected.',
      'Check the role `system:node-proxier` and the API server.',
    ],
    ['Node is being deleted', 'info', '', 'The Node object has a deletion time stamp.'],
    [
      'NodeIPs changed for the node; updating rules',
      'info',
      'from, to',
      'The addresses of the Node changed.',
    ],
    [
      'PodCIDRs changed for the node; updating rules',
      'info',
      'from, to',
      'The pod CIDRs of the Node changed, and rules recognise local pods by them.',
    ],
    [
      'PodCIDRs changed for the node; keeping the rules',
      'error',
      'from, to, err',
      'The new pod CIDRs cannot be served; the ones before stay in force.',
      'Compare `err` with the Node object.',
    ],
  ],
  Services: [
    [
      'Service port changed in the kernel',
      'trace',
      'service, port, family, what, before, after, added, removed, also, latencyMs',
      'A Service port changed in the kernel; its endpoints that were added and removed.',
    ],
    [
      'Kernel rejected Service port; continuing without it',
      'error',
      'service, port, family, err, attempts, retryMs',
      'The kernel refused this Service port. All others are programmed; it is retried after `retryMs`.',
      '`fairlead service show` prints the reason; see [The kernel refuses a Service](runbook.md#the-kernel-refuses-a-service).',
    ],
    [
      'Service port programmed again',
      'info',
      'service, port, family, attempts',
      'A Service port that the kernel rejected is programmed now.',
    ],
    ...noticeRows,
    ['Reading again the objects that were left out', 'info', '', 'There is room in memory again.'],
    [
      'Service address belongs to this machine; serving only its ports there',
      'warn',
      'service, port, family, err',
      'Mode ipvs does not bind an address that the machine has on another interface.',
      'Use another address.',
    ],
    [
      'Could not listen on health-check node port; retrying',
      'warn',
      'service, port, err, retryMs',
      'Load balancers cannot ask whether this node has endpoints of the Service.',
      'Find the program that has the port: `ss -tlnp`.',
    ],
    ['Opened health-check node port', 'debug', 'service, port, family', 'The port answers.'],
    [
      'Closed health-check node port',
      'debug',
      'service, port, family',
      'The Service no longer needs it.',
    ],
    [
      'Could not listen on the loopback address for node port; retrying',
      'warn',
      'service, port, family, err, retryMs',
      'The node port does not answer at 127.0.0.1 or ::1.',
      'Find the program that has the port: `ss -tlnp`.',
    ],
    [
      'Listening on the loopback address for node port',
      'info',
      'service, port, family',
      'The node port answers at the loopback address now.',
    ],
    [
      'Refused client of a socket: too many file descriptors',
      'warn',
      'frontend, client, bound, descriptorsMax',
      'A limit of file descriptors is reached: `bound` says of all sockets, a frontend or a client. A new connection was closed or a datagram dropped, or the oldest connection of the client or network that has most was closed for a client that has few.',
      'Find what `client` does, or endpoints that lead back to a node port; raise the limit of open files if that many clients are legitimate.',
    ],
    [
      'Reset connection of a socket: too many bytes wait in buffers',
      'warn',
      'frontend, client, bound, bytesMax',
      'A limit of waiting bytes is reached: `bound` says of all connections, a frontend or a client. Of the connections that did not move, the one with most bytes was reset.',
      'Check why `client`, or the endpoints of the Service, do not read what they get.',
    ],
  ],
  'The kernel': [
    ['Sync queued', 'trace', 'family', 'Something changed; a sync follows.'],
    [
      'Applied batch',
      'debug',
      'family, purpose, forwardings, writes, bytes, applyMs, sinceChangeMs',
      'The kernel acknowledged one batch.',
    ],
    [
      'Sync finished',
      'debug',
      'family, purpose, ok, durationMs',
      'Everything that changed is in the kernel, or rejected.',
    ],
    [
      'Kernel state verified',
      'info',
      'family, purpose, durationMs',
      'What the kernel holds was read, compared and repaired where it differed.',
    ],
    [
      'Updated kernel state at start',
      'info',
      'family, added, changed, removed',
      'What the start had to change in what an earlier process left.',
    ],
    ['Audit finished', 'debug', 'family, durationMs', 'A periodic comparison is over.'],
    [
      'No other program can change our table',
      'info',
      'family',
      'The kernel (Linux 6.9 and newer) protects the table with an owner.',
    ],
    [
      'Watching tables that other programs can change',
      'info',
      'family, tables',
      'The kernel or the mode cannot protect these tables; changes by others are noticed and repaired.',
    ],
    [
      'Failed to watch tables, comparing them now; retrying',
      'warn',
      'family, tables, err, retryMs',
      'The kernel refused or ended the watch. Until it begins again, changes by others are found by audits alone.',
      '`err` names the reason, often a limit of descriptors or memory.',
    ],
    [
      'Repaired rules that another program changed',
      'warn',
      'family, purpose, missing, wrong, unwanted, program, pid',
      'Another program changed our rules.',
      'Find the program; see [Another program changes the rules](runbook.md#another-program-changes-the-rules).',
    ],
    [
      'Repaired rules that differ from what was programmed',
      'warn',
      'family, purpose, missing, wrong, unwanted',
      'The kernel held something else than expected; who changed it is not known.',
      'See [Another program changes the rules](runbook.md#another-program-changes-the-rules).',
    ],
    [
      'Repaired rules that differ although no other program changed them',
      'error',
      'family, purpose, missing, wrong, unwanted',
      'A defect, repaired.',
      'Report the lines of the log around it.',
    ],
    [
      'Repaired kernel state after a rejected batch',
      'info',
      'family, missing, wrong, unwanted',
      'After a rejected batch the kernel was read and brought up to date.',
    ],
    [
      'Element counts differ from the expected ones; starting a full comparison',
      'warn',
      'family, miscounts',
      'The number of elements in the kernel differs from what was programmed.',
      'The result of the comparison is in the log; see the messages that begin with “Repaired rules”.',
    ],
    [
      'Kernel rejected batch',
      'debug',
      'family, purpose, err',
      'The batch is split to find the Service port that the kernel rejects.',
    ],
    [
      'Sync failed; reading kernel state before retrying',
      'error',
      'family, purpose, err, retryMs',
      'The kernel rejected a batch for a reason that no single Service explains.',
      'See [Changes come late](runbook.md#changes-come-late); `err` has the words of the kernel.',
    ],
    [
      'Waiting for another process to end',
      ['warn', 'debug'],
      'family, err, retryMs',
      'Another process owns our table; it is taken over when that process ends.',
      'Stop the other process; `nft list tables` names the owner.',
    ],
    [
      'Could not delete expired elements; retrying',
      'debug',
      'family, err, retryMs',
      'An element may have expired by itself before.',
    ],
    [
      'Could not delete unused objects; retrying',
      'warn',
      'family, err, retryMs',
      'Objects that nothing uses any longer stay a little longer.',
    ],
    [
      'Could not read named counters',
      'warn',
      'err',
      'Metrics made from them are missing.',
      'Load the module `nfnetlink_acct`, or ignore it.',
    ],
  ],
  'Connection tracking': [
    [
      'Conntrack table is nearly full',
      'warn',
      'entries, limit, dropped, evicted, services, others',
      'New connections will be dropped when the table is full.',
      'See [Connection tracking is full](runbook.md#connection-tracking-is-full).',
    ],
    [
      'Conntrack cleanup done',
      'debug',
      'family, protocol, examined, deleted, durationMs',
      'Entries that contradicted the Services were deleted.',
    ],
    ['Deleted conntrack entry', 'trace', 'family, entry', 'One entry that was deleted.'],
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
      'The kernel cannot list or delete entries.',
      '`err` names what is missing, for example a capability.',
    ],
  ],
  'Taking over': [
    [
      'Took over from kube-proxy; removed its rules',
      'info',
      'family, backend, tables, chains, jumps',
      'Our rules were verified first; then those of kube-proxy were removed.',
    ],
    [
      'Removed kube-proxy rules that reappeared; is kube-proxy still running?',
      'warn',
      'family, backend, tables, chains, jumps',
      'kube-proxy wrote its rules again.',
      'Stop kube-proxy on this node.',
    ],
    [
      'Keeping kube-proxy chains that other rules still reference',
      'warn',
      'family, backend, kept',
      'A rule of another program jumps to a chain of kube-proxy.',
      'Remove the rule that `kept` names.',
    ],
    [
      "Removed kube-proxy's IPVS services, except those with active connections",
      'info',
      'virtualServices, sets, draining, foreign, keptSets',
      'What still carries connections is removed when they end.',
    ],
    ["Removed kube-proxy's named counters", 'info', 'counters', 'They counted for kube-proxy.'],
    [
      'Took over from another mode; removed its objects',
      'info',
      'mode, by, objects, first',
      'The mode changed, and the objects of the one before were removed.',
    ],
    [
      'Previous mode still has active connections; removing its objects when they end',
      'info',
      'mode, connections',
      'Connections continue through the objects of the mode before.',
    ],
    [
      'Could not remove objects of the previous proxy; retrying',
      'warn',
      'of, err, retryMs',
      'What was replaced is still in the kernel.',
      'If it continues, `err` has the reason.',
    ],
    [
      'Replacing a table of our name that another program created',
      'warn',
      'table, objects, first',
      'Another program uses our table name.',
      'Give the other table another name.',
    ],
    [
      'Rules of iptables-legacy are active in addition to ours',
      'warn',
      'note',
      'Packets meet the rules of both backends, and a `DROP` in either is final.',
      'Let the programs that `note` names use iptables-nft.',
    ],
  ],
  'Failure detection': [
    [
      'Counting answers of endpoints',
      'info',
      'services, endpoints',
      'Failure detection has started, for this number of Services and endpoints.',
    ],
    [
      'Failed to count answers of endpoints; only probes show which answer',
      'warn',
      'err',
      'The kernel refuses the table, or another program has one of its name. Endpoints without probes are not followed; Services work.',
      'Correct what `err` names, or set `failureDetection: off`.',
    ],
    [
      'Failed to try a connection to an endpoint, which says nothing about it',
      'warn',
      'err, endpoint',
      'This node lacks descriptors, memory or ports, or is not allowed to connect. Probes that fail so do not count. Each errno is logged once.',
      'Raise the limit or add the right that `err` names; `fairlead_endpoint_probes_total{result="not_tried"}` counts these.',
    ],
    [
      'Endpoint does not answer; it gets no new connections',
      'warn',
      'service, port, family, endpoint, unanswered',
      'It did not answer the last `unanswered` attempts, while other endpoints of the Service port answered. Probes continue.',
      'Look at the endpoint and the way to it: `fairlead service check`.',
    ],
    [
      'Endpoint gets new connections again',
      'info',
      'service, port, family, endpoint, because, outMs',
      '`because` is `answer`: it answers again; `trial`: clients try it again, because nothing is known; or `exempt`: it is no longer taken for a pod.',
    ],
    [
      'Removed the table of failure detection',
      'info',
      'table',
      'No Service asks for failure detection any more.',
    ],
  ],
  'Fast path': [
    [
      'Using fast path',
      'info',
      'packets, devices',
      'Connections to Services move to a flowtable after `packets` packets, on this number of devices.',
    ],
    [
      'Fast path unavailable; using the rules',
      'warn',
      'err',
      'The kernel, the mode, the devices or another program prevent it; `err` says which. Services work.',
      'Correct what `err` names, or set `fastPath: off`.',
    ],
    [
      'Kernel rejected fast path device; using the rules',
      'warn',
      'device, err',
      'The kernel refuses this device. Packets that come by it meet the rules.',
    ],
    [
      'Repaired fast path that another program changed',
      'warn',
      'table',
      'Its table differed from what was programmed. Connections move to the flowtable again with their next packets.',
      'Find the program that changes `table`.',
    ],
    [
      'Could not update fast path; trying again',
      'error',
      'err',
      'The kernel refused a change. The table in force stays: new devices may not be in it yet.',
      'If it continues, `err` has the reason.',
    ],
    [
      'Removed fast path',
      'info',
      'table',
      'It is off now: packets of its connections meet the rules again.',
    ],
  ],
  'Connect-time translation': [
    [
      'Connect-time translation is unavailable; using packet rules only',
      'warn',
      'connectTime, err',
      'The kernel or the container lacks what it needs; `err` names it. Services work.',
      'Mount what `err` names, or set `connectTime: off`.',
    ],
    [
      'Mounts of ClusterIPs may hang on this kernel',
      'warn',
      'clients',
      'These clients inside the kernel may keep the address of an endpoint, also when its pod is replaced.',
      'Annotate Services that are mounted with `fairlead.io/connect-time: "off"`, or update the kernel.',
    ],
    [
      'Removed connect-time programs',
      'info',
      'directory',
      'The programs of an earlier configuration were removed.',
    ],
    [
      'Could not remove connect-time programs',
      'error',
      'err',
      'Programs of an earlier configuration may still translate connections.',
      'Run `fairlead connect-time remove` on the node.',
    ],
    [
      'Detached connect-time programs that no process updates',
      'info',
      'programs',
      'An earlier process left them, and its pins are not in reach. Connections are translated by rules again.',
      'On the node, `rm -r /sys/fs/bpf/fairlead` frees the memory of their maps.',
    ],
    [
      'Connect-time programs that no process updates are attached',
      'error',
      'programs, err',
      'They send connections to endpoints that may no longer exist. Detaching them is tried again every minute.',
      'Run `fairlead connect-time remove` on the node.',
    ],
    [
      'Attached programs may be connect-time programs of an earlier process',
      'warn',
      'attached',
      "They may also be of another agent. Asking whose they are needs `CAP_SYS_ADMIN`, or the mount of the node's `/sys/fs/bpf/fairlead`.",
      'Run `fairlead connect-time remove --dry-run` on the node.',
    ],
    [
      'Could not check for connect-time programs of an earlier process',
      'info',
      'err',
      'The process may not ask the kernel which programs are attached.',
      'If connect-time translation was on before: `fairlead connect-time remove --dry-run` on the node.',
    ],
    [
      'Failed to renew the lease of connect-time programs',
      'warn',
      'family, leftMs, err',
      'When the lease ends, in `leftMs`, the programs leave all connections to the rules. It is tried again before that.',
      'Correct what `err` names. If the maps are out of date, look for messages about failed syncs.',
    ],
    [
      'Lease of connect-time programs expired; comparing maps to renew it',
      'warn',
      'family',
      'The process or the machine stood still for longer than the lease. Rules translate connections until the comparison is over.',
      'If it happens often, the process gets too little CPU time.',
    ],
    [
      'Connect-time map is full; Service is handled by packet rules only',
      'warn',
      'service, family, frontends, endpoints',
      'It does not fit, or its namespace has half of the map. The Service works; its connections are not translated at connect time.',
    ],
    [
      'Updated connect-time maps',
      'debug',
      'family, purpose, forwardings, writes, bytes, applyMs',
      'The maps follow a change of the rules. `purpose` is that of a batch.',
    ],
    [
      'Updated connect-time maps at start',
      'debug',
      'family, missing, wrong, unwanted',
      'What an earlier process left in the maps differed from what is desired.',
    ],
    [
      'Failed to update connect-time maps; packet rules handle what they lack',
      'warn',
      'family, purpose, err, retryMs',
      'The kernel refused a batch of the maps. They are read and repaired after `retryMs`. Services work.',
      'If it continues, correct what `err` names. If the kernel lacks memory, fewer Services are put into the maps.',
    ],
    [
      'Failed to update table filter; a host firewall may drop health checks',
      'warn',
      'family, purpose, err, retryMs',
      'With an empty mode, the rules that accept packets past a firewall of the host were refused. Services work without such a firewall. It is tried again after `retryMs`.',
    ],
    [
      'Kernel rejected rule for health checks in table filter; Service port is served',
      'warn',
      'service, port, family, err, attempts, retryMs',
      'The Service works; a firewall of the host may drop health checks of its load balancer. It is tried again after `retryMs`.',
    ],
    [
      'Rule for health checks is in table filter again',
      'info',
      'service, port, family, attempts',
      'What the line above says is over.',
    ],
    [
      'Kernel rejected Service port in connect-time maps; packet rules handle it',
      'warn',
      'service, port, family, err, attempts, retryMs',
      'The Service works; its connections are not translated at connect time. It is tried again after `retryMs`.',
    ],
    [
      'Service port is in the connect-time maps again',
      'info',
      'service, port, family, attempts',
      'The kernel took what it had rejected.',
    ],
    [
      'Repaired connect-time maps that differ from what was programmed',
      'warn',
      'family, missing, wrong, unwanted',
      'Another program changed elements, or detached programs. Both are repaired.',
      'Find the program that writes below `/sys/fs/bpf/fairlead`.',
    ],
    [
      'Pool id is in use by another Service; Service is handled by packet rules only',
      'warn',
      'service, family',
      'Its ids in the connect-time maps would be those of another Service, which keeps them. The Service works; its connections are not translated at connect time.',
      'This does not happen by chance: check who made the Service.',
    ],
    [
      'Service is in the connect-time map again',
      'info',
      'service, family, frontends, endpoints',
      'The map has room for the Service again.',
    ],
    [
      'Read the pods to exclude from connect-time translation',
      'info',
      '',
      'They are known now; they could not be read before.',
    ],
    [
      'Could not read the pods to exclude from connect-time translation',
      'warn',
      'err, fallback',
      'Until they are known, pods are handled as `fallback` says.',
      'Check that the account may list and watch pods (`excludedPods: true` of the chart).',
    ],
    [
      'Too many pods to exclude from connect-time translation',
      'warn',
      'cgroups, max',
      'Only `max` cgroups can be excluded.',
      'Choose a narrower selector.',
    ],
  ],
  'Log and servers': [
    [
      'HTTP thread ended; starting another one',
      'error',
      'err',
      'The thread that answers health, metrics and questions ended. Services are not affected.',
      'Report `err`.',
    ],
    [
      'Server failed',
      'error',
      'err',
      'Fairlead could not listen on a port; it tries again. Services are not affected.',
      'Find the program that has the port: `ss -tlnp`.',
    ],
    [
      'Dropped log lines because nothing read them in time',
      'warn',
      'count',
      'The reader of standard error had stopped, or its disk was full.',
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

function messageOf([message, levels, fields, meaning, action = '']: Row): LogMessage {
  return {
    message,
    levels: typeof levels === 'string' ? [levels] : levels,
    fields,
    meaning,
    action,
  };
}

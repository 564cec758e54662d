/** The health of this node's proxy. */
import { modeNames } from '../modes/mode-table.ts';
import {
  answer,
  count,
  field,
  flag,
  type Infer,
  list,
  maybe,
  number,
  object,
  oneOf,
  text,
  time,
} from './schema.ts';

export const familyName = oneOf('IPv4', 'IPv6');
export const protocolName = oneOf('TCP', 'UDP', 'SCTP');
const modeName = oneOf(...modeNames);

const fallback = object({
  from: field(modeName, 'The mode that cannot run here.'),
  to: field(modeName, 'The mode that is tried next.'),
  reason: field(text, 'The feature that the kernel, or this version, lacks.'),
});

const sync = object({
  time: field(time, 'When it ended.'),
  purpose: field(
    oneOf('start', 'changes', 'recovery', 'audit', 'deferred', 'sweep'),
    'Why it was done: `changes` is the normal sync, `recovery` follows a failure.',
  ),
  ok: field(flag, 'All that was desired at its start is in force or set aside.'),
  durationMs: field(number, 'How long it took.'),
});

const failure = object({
  time: field(time, 'When the kernel refused a batch.'),
  error: field(text, 'The error that the kernel gave.'),
});

const drift = object({
  time: field(time, 'When it was found, and repaired.'),
  missing: field(count, 'Objects that the kernel lacked.'),
  wrong: field(count, 'Objects whose content was wrong.'),
  unwanted: field(count, 'Objects that should not have been in the kernel.'),
  writers: field(
    oneOf('others', 'only us', 'unknown'),
    'Whether other programs have written to nf_tables since all was right.',
  ),
  program: maybe(text, 'The program that wrote last and its process, if the kernel reports it.'),
});

const family = object({
  family: field(familyName, 'The family.'),
  phase: field(
    oneOf('reading', 'staged', 'hooking', 'live', 'stopping'),
    '`live`: packets meet the rules. The phases of a start come before that: `reading` writes nothing, `staged` and `hooking` write rules that no packet meets yet.',
  ),
  inForce: field(count, 'Service ports that are in force in the kernel.'),
  waiting: field(count, 'Services that have changed and are not written yet.'),
  behindSeconds: maybe(
    number,
    'Changes come faster than they can be written: for how long the next of them, or the repair of what another program changed, has waited.',
  ),
  lastSync: maybe(sync, 'The last sync.'),
  lastFailure: maybe(failure, 'The last batch that the kernel refused.'),
  lastDrift: maybe(drift, 'The last time that the kernel’s state differed from what was in force.'),
  repairs: field(count, 'How often drift was found since the start of the process.'),
});

const watch = object({
  resource: field(
    oneOf('services', 'endpointslices', 'nodes', 'servicecidrs'),
    'The watched resource.',
  ),
  state: field(
    oneOf('watching', 'missing', 'silent', 'unused'),
    '`missing`: the first list has not arrived. `silent`: nothing has arrived for two minutes. `unused`: the source does not watch it.',
  ),
  silenceSeconds: maybe(number, 'Seconds since the source last sent anything.'),
  missingSeconds: maybe(number, 'Seconds for which the first list has been missing.'),
  failure: maybe(text, 'The last failure, if nothing has succeeded since.'),
});

const setAside = object({
  namespace: field(text, 'Namespace of the Service.'),
  service: field(text, 'Name of the Service.'),
  port: field(text, 'Name of the port; empty for a port without one.'),
  protocol: field(protocolName, 'Protocol of the port.'),
  family: field(familyName, 'In which family.'),
  error: field(text, 'The kernel’s error.'),
  attempts: field(count, 'The number of attempts.'),
  retrySeconds: maybe(number, 'Seconds until it is tried again. Absent: not before it changes.'),
  earlierInForce: field(flag, 'Its earlier state is still in force.'),
});

const conntrack = object({
  entries: field(count, 'Connections that the kernel tracks.'),
  limit: field(count, 'The most connections that it tracks (`nf_conntrack_max`).'),
});

const fastPath = object({
  state: field(oneOf('flowtable', 'unavailable'), 'Whether a flowtable takes them.'),
  because: maybe(text, 'Why it is unavailable.'),
  packets: maybe(count, 'A connection goes to the flowtable after this number of packets.'),
  devices: maybe(count, 'Network devices whose packets may go that way.'),
});

const failureDetection = object({
  state: field(
    oneOf('counting', 'unavailable'),
    'Whether answers of endpoints are counted. unavailable: only probes show which answer.',
  ),
  because: maybe(text, 'Why they are not.'),
  services: field(count, 'Services whose endpoints are followed.'),
  endpoints: field(count, 'Their endpoints, for each port.'),
  ejected: field(count, 'Those without new connections, because they do not answer.'),
  silent: field(count, 'Others that do not answer.'),
  leftOut: field(count, 'Endpoints that are not followed, because there are too many.'),
  notTried: maybe(
    count,
    'Probes that this node could not try, which says nothing about endpoints; the log says why.',
  ),
});

const connectTime = object({
  state: field(
    oneOf('off', 'host', 'all', 'unavailable', 'stale', 'unknown'),
    'Whose connections are translated when they are made; stale: by programs that no process updates; unknown: attached programs may be such.',
  ),
  stale: field(
    object({
      attached: field(count, 'How many programs of earlier processes are attached.'),
      failure: maybe(text, 'Why they could not be removed.'),
      unknown: maybe(text, 'Why it is not known whether there are any.'),
      unidentified: maybe(
        count,
        'Attached programs that may be stale or of another agent: the process may not ask which.',
      ),
    }),
    'Programs that no process updates.',
  ),
  maps: field(
    list(
      object({
        family: field(familyName, 'The IP family.'),
        frontends: field(count, 'Frontends in the map.'),
        frontendsMax: field(count, 'Its current capacity.'),
        endpoints: field(count, 'Endpoints in the map.'),
        endpointsMax: field(count, 'Its current capacity.'),
        withoutRoom: field(
          count,
          'Services that do not fit into the maps: only rules handle them.',
        ),
      }),
    ),
    'How full the maps are, by family.',
  ),
  excludedPods: maybe(
    object({
      selector: field(text, 'The label selector that matches them.'),
      pods: maybe(count, 'Pods of this node that it matches. Absent: they are not known.'),
      excluded: field(count, 'Those that have a cgroup, and are handled by rules only.'),
      failure: maybe(text, 'Why they are not known.'),
    }),
    'Pods whose connections are handled by rules only. Absent: no pods are excluded.',
  ),
  kernelClients: maybe(
    list(text),
    'Clients of this kernel (NFS, SMB, Ceph) that may keep the address of an endpoint. Absent: none.',
  ),
});

export const statusSchema = answer('Status', {
  healthy: field(flag, 'There is no problem.'),
  problems: field(list(text), 'The problems, a sentence each.'),
  runbook: field(
    list(text),
    'For each of the problems, in their order, the section of docs/runbook.md: `a-watch-is-silent`.',
  ),
  remarks: field(list(text), 'Facts that are not problems, a sentence each.'),
  version: field(text, 'The version of this program.'),
  kubernetesVersion: field(text, 'The release of kube-proxy whose behaviour it has.'),
  node: field(text, 'The name of the node.'),
  pid: field(count, 'The id of the process in its own PID namespace.'),
  started: field(time, 'When the process started.'),
  uptimeSeconds: field(number, 'Seconds since the process started.'),
  mode: field(
    object({
      name: field(modeName, 'The mode that runs.'),
      requested: maybe(modeName, 'The configured mode. Absent: the best that the kernel can do.'),
      because: field(text, 'Why this mode runs.'),
      fallbacks: field(list(fallback), 'The modes that cannot run here.'),
    }),
    'Which mode runs, and why.',
  ),
  source: field(
    object({
      kind: field(oneOf('kubernetes', 'manifests'), 'Where objects come from.'),
      server: maybe(text, 'The API server.'),
      serverVersion: maybe(text, 'The version that it reports.'),
      directory: maybe(text, 'The directory of manifests.'),
    }),
    'Where Services come from.',
  ),
  configHash: field(
    text,
    'A digest of the configuration in force (`/configz`) without `hostnameOverride`: nodes with the same configuration have the same.',
  ),
  watches: field(list(watch), 'The watch of each resource; empty with manifests.'),
  families: field(list(family), 'How the kernel is kept up to date, by family.'),
  services: field(
    object({
      known: field(count, 'Services that this proxy serves.'),
      waiting: field(count, 'Services that have changed and are not resolved yet.'),
      setAside: field(count, 'Service ports that the kernel refuses.'),
      overLimit: field(count, 'Services that exceed a limit, and are served in part.'),
      leftOut: field(
        count,
        'Services and EndpointSlices that are left out: there is no memory for them.',
      ),
      leftOutOf: field(list(text), 'The namespaces that have most of these; the first three.'),
      withProblems: field(count, 'Services that have problems, which `problems` answers with.'),
    }),
    'Counts of Services.',
  ),
  setAside: field(list(setAside), 'Service ports that the kernel refuses; the first hundred.'),
  connectTime: field(connectTime, 'Connect-time translation.'),
  fastPath: maybe(fastPath, 'How established connections travel; absent: by the rules.'),
  failureDetection: maybe(
    failureDetection,
    'Endpoints that do not answer; absent: no Service asks for it.',
  ),
  conntrack: maybe(conntrack, 'How full connection tracking is.'),
});
export type Status = Infer<typeof statusSchema>;

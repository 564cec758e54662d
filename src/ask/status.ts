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
/** Which of a Service's addresses. */
export const frontendName = oneOf('clusterIP', 'externalIP', 'loadBalancerIP', 'nodePort');
export const modeName = oneOf(...modeNames);

const fallback = object({
  from: field(modeName),
  to: field(modeName),
  reason: field(text, 'The missing feature.'),
});

const sync = object({
  time: field(time),
  purpose: field(
    oneOf('start', 'changes', 'recovery', 'audit', 'deferred', 'sweep'),
    '`changes`: the usual sync. `recovery`: after a failure.',
  ),
  ok: field(flag, 'All that was desired at its start is in force or set aside.'),
  durationMs: field(number),
});

const failure = object({
  time: field(time),
  error: field(text),
});

const drift = object({
  time: field(time, 'When it was repaired.'),
  missing: field(count),
  wrong: field(count),
  unwanted: field(count),
  writers: field(
    oneOf('others', 'only us', 'unknown'),
    'Whether other programs have written to nf_tables since all was right.',
  ),
  program: maybe(text, 'Who wrote last, if the kernel reports it.'),
});

const family = object({
  family: field(familyName),
  phase: field(
    oneOf('reading', 'staged', 'hooking', 'live', 'stopping'),
    '`live`: packets meet the rules. During a start, `reading` writes nothing, `staged` and `hooking` write rules that no packet meets yet.',
  ),
  inForce: field(count, 'Service ports.'),
  waiting: field(count, 'Services whose change is not written yet.'),
  behindSeconds: maybe(
    number,
    'How long the next change or repair has waited, if changes come faster than they can be written.',
  ),
  lastSync: maybe(sync),
  lastFailure: maybe(failure, 'The last batch that the kernel refused.'),
  lastDrift: maybe(drift, 'When the kernel last differed from what was in force.'),
  repairs: field(count, 'Since the start.'),
});

const watch = object({
  resource: field(oneOf('services', 'endpointslices', 'nodes', 'servicecidrs')),
  state: field(
    oneOf('watching', 'missing', 'silent', 'unused'),
    '`missing`: no first list yet. `silent`: nothing for two minutes. `unused`: the source does not watch it.',
  ),
  silenceSeconds: maybe(number, 'Since the source last sent anything.'),
  missingSeconds: maybe(number, 'Without a first list.'),
  failure: maybe(text, 'If nothing has succeeded since.'),
});

const setAside = object({
  namespace: field(text),
  service: field(text),
  port: field(text),
  protocol: field(protocolName),
  family: field(familyName),
  since: field(time),
  error: field(text),
  attempts: field(count),
  retrySeconds: maybe(number, 'Until the next attempt. Absent: not before it changes.'),
  earlierInForce: field(flag),
});

const conntrack = object({
  entries: field(count),
  limit: field(count, '`nf_conntrack_max`.'),
});

const fastPath = object({
  state: field(oneOf('flowtable', 'unavailable')),
  because: maybe(text),
  packets: maybe(count, 'A connection goes there after this number of packets.'),
  devices: maybe(count),
});

const failureDetection = object({
  state: field(
    oneOf('counting', 'unavailable'),
    '`unavailable`: only probes show which endpoints answer.',
  ),
  because: maybe(text),
  services: field(count, 'Services that have it.'),
  endpoints: field(count, 'Of these, for each port.'),
  ejected: field(count, 'Get no new connections.'),
  silent: field(count, 'Do not answer, and are not ejected.'),
  leftOut: field(count, 'Not followed: too many.'),
  notTried: maybe(count, 'Probes that this node could not try; the log says why.'),
});

const connectTime = object({
  state: field(
    oneOf('off', 'host', 'all', 'unavailable', 'stale', 'unknown'),
    '`stale`: by programs that no process updates. `unknown`: attached programs may be such.',
  ),
  stale: field(
    object({
      attached: field(count, 'Programs of earlier processes.'),
      failure: maybe(text, 'Why they could not be removed.'),
      unknown: maybe(text, 'Why it is not known.'),
      unidentified: maybe(
        count,
        'Attached programs of this or another agent: the process may not ask which.',
      ),
    }),
  ),
  maps: field(
    list(
      object({
        family: field(familyName),
        frontends: field(count),
        frontendsMax: field(count),
        endpoints: field(count),
        endpointsMax: field(count),
        withoutRoom: field(count, 'Services that only rules handle.'),
      }),
    ),
  ),
  excludedPods: maybe(
    object({
      selector: field(text),
      pods: maybe(count, 'Pods of this node that match. Absent: not known.'),
      excluded: field(count, 'Those with a cgroup: only rules handle them.'),
      failure: maybe(text),
    }),
    'Pods that only rules handle.',
  ),
});

export const statusSchema = answer('Status', {
  healthy: field(flag),
  problems: field(list(text), 'Sentences.'),
  runbook: field(
    list(text),
    'For each problem its section of docs/runbook.md: `a-watch-is-silent`.',
  ),
  remarks: field(list(text), 'Facts that are not problems.'),
  version: field(text),
  kubernetesVersion: field(text, 'The release of kube-proxy that it follows.'),
  node: field(text),
  pid: field(count, 'In its own PID namespace.'),
  started: field(time),
  uptimeSeconds: field(number),
  mode: field(
    object({
      name: field(modeName),
      requested: maybe(modeName, 'Absent: the best that the kernel can do.'),
      because: field(text),
      fallbacks: field(list(fallback)),
    }),
  ),
  source: field(
    object({
      kind: field(oneOf('kubernetes', 'manifests')),
      server: maybe(text),
      serverVersion: maybe(text),
      directory: maybe(text),
    }),
  ),
  configHash: field(
    text,
    'A digest of `/configz` without `hostnameOverride`: equal on nodes of equal configuration.',
  ),
  watches: field(list(watch)),
  families: field(list(family)),
  services: field(
    object({
      known: field(count),
      waiting: field(count, 'Changed, and not resolved yet.'),
      setAside: field(count, 'Service ports that the kernel refuses.'),
      overLimit: field(count, 'Exceed a limit: served in part.'),
      leftOut: field(count, 'Services and EndpointSlices that memory has no room for.'),
      leftOutOf: field(list(text), 'The three namespaces with most of these.'),
      withProblems: field(count),
    }),
  ),
  setAside: field(list(setAside), 'Service ports that the kernel refuses; the first hundred.'),
  connectTime: field(connectTime),
  fastPath: maybe(fastPath, 'How established connections travel. Absent: by the rules.'),
  failureDetection: maybe(failureDetection, 'Absent: no Service asks for it.'),
  conntrack: maybe(conntrack),
});
export type Status = Infer<typeof statusSchema>;

/** Answers `/fairlead/v1/status`. */
import { apiVersion } from '../../ask/paths.ts';
import type { Status } from '../../ask/status.ts';
import { configHash } from '../../config/hash.ts';
import { fairleadVersion, kubernetesVersion } from '../../config/version.ts';
import { conntrackUse } from '../../host/conntrack.ts';
import { resources } from '../../state/change.ts';
import type { FamilySync } from '../../sync/family.ts';
import type { Quarantined } from '../../sync/quarantine.ts';
import type { Clock } from '../../time/clock.ts';
import { connectTimeState } from '../connect-time-metrics.ts';
import { seconds, staleAfterMs } from '../health-answer.ts';
import { failureText } from '../refusal-text.ts';
import type { AgentState } from './agent-state.ts';
import type { FamilyHistory } from './event-history.ts';
import { timeOf } from './port-state.ts';
import { type Facts, statusProblems, statusRemarks } from './status-problems.ts';

/** The most Service ports in quarantine that the answer lists. */
const asideMax = 100;

/** The most namespaces that it names. */
const namespacesMax = 3;

export async function statusOf(agent: AgentState): Promise<Status> {
  await agent.problemIndex.catchUp();
  return statusNow(agent);
}

/** With the known problems of Services, without checking again. */
export function statusNow(agent: AgentState): Status {
  const { clock, host, nodeName, state } = agent;
  const engine = agent.engine;
  const families = engine?.families ?? [];
  const uptimeMs = process.uptime() * 1000;
  const aside = families.flatMap((sync) =>
    Array.from(sync.quarantined, (entry) => ({ sync, entry })),
  );
  const facts: Facts = {
    version: fairleadVersion,
    kubernetesVersion,
    node: nodeName,
    pid: process.pid,
    started: timeText(clock.wallMs() - uptimeMs),
    uptimeSeconds: seconds(uptimeMs),
    mode: modeOf(agent),
    source: sourceOf(agent),
    configHash: configHash(agent.config),
    watches: agent.config.source.kind === 'manifests' ? [] : watchesOf(agent),
    families: families.map((sync) => familyOf(sync, agent.eventHistory.of(sync.family))),
    services: {
      known: state.serviceCount,
      waiting: state.changed.size,
      setAside: aside.length,
      overLimit: engine?.overLimit ?? 0,
      leftOut: agent.heapGuard.leftOut.count,
      leftOutOf: agent.heapGuard.leftOut.namespaces(namespacesMax).map(([name]) => name),
      withProblems: agent.problemIndex.counts.services,
    },
    setAside: aside.slice(0, asideMax).map(({ sync, entry }) => asideOf(sync, entry, clock)),
    connectTime: connectTimeOf(agent),
    ...fastPathOf(agent),
    ...detectionOf(agent),
    conntrack: host && conntrackUse(host),
  };
  const findings = agent.findings;
  const { byReason } = agent.problemIndex.counts;
  const problems = statusProblems(facts, {
    isKeepingUp: agent.health.healthy,
    configRefusal: agent.configRefusal,
    findings,
    unserved: byReason.get('family_not_served') ?? 0,
  });
  const obstructed = byReason.get('rule_in_the_way') ?? 0;
  const remarks = statusRemarks(facts, findings, obstructed);
  return {
    apiVersion,
    kind: 'Status',
    healthy: problems.length === 0,
    problems: problems.map(({ text }) => text),
    runbook: problems.map(({ section }) => section),
    remarks,
    ...facts,
  };
}

function modeOf({ config, fallbacks: steps, mode }: AgentState): Status['mode'] {
  const { name } = mode;
  const requested = config.mode;
  const asked = requested === '' ? 'no mode was asked for' : `mode ${requested} was asked for`;
  const lacking = steps.map(({ from }) => from).join(' and ');
  const because =
    steps.length > 0
      ? `${asked}, and ${lacking} cannot run here`
      : requested === ''
        ? `${asked}, and this is the best that the kernel can do`
        : asked;
  return {
    name,
    ...(requested === '' ? {} : { requested }),
    because,
    fallbacks: steps.map(({ from, to, reason }) => ({ from, to, reason })),
  };
}

function fastPathOf({ fastPath }: AgentState): Pick<Status, 'fastPath'> {
  const { state } = fastPath;
  if (state.kind === 'off') return {};
  const { kind, ...facts } = state;
  return { fastPath: { state: kind, ...facts } };
}

function detectionOf({ failureDetection }: AgentState): Pick<Status, 'failureDetection'> {
  const { state: found, totals } = failureDetection;
  if (found.kind === 'off') return {};
  const { kind: state, ...why } = found;
  const { endpoints, leftOut, out: ejected, probes, services, silent } = totals;
  const counts = { services, endpoints, ejected, silent, leftOut };
  const { notTried } = probes;
  return { failureDetection: { state, ...why, ...counts, ...(notTried > 0 && { notTried }) } };
}

function connectTimeOf(agent: AgentState): Status['connectTime'] {
  const engine = agent.engine;
  const uses = (engine?.families ?? []).flatMap(({ family }) => {
    const use = engine?.maps(family)?.use;
    if (use === undefined) return [];
    const { left, limit, used } = use;
    return [
      {
        family,
        frontends: used.frontends,
        frontendsMax: limit.frontends,
        endpoints: used.endpoints,
        endpointsMax: limit.endpoints,
        withoutRoom: left,
      },
    ];
  });
  const { excludedPods, stale } = agent.connectTime;
  const { exclusion } = excludedPods;
  return {
    state: connectTimeState(agent),
    maps: uses,
    stale: stale.now,
    ...(exclusion && { excludedPods: exclusion }),
  };
}

function sourceOf({ config, source }: AgentState): Status['source'] {
  const asked = config.source;
  if (asked.kind === 'manifests') return { kind: 'manifests', directory: asked.directory };
  return {
    kind: 'kubernetes',
    server: source.server(),
    serverVersion: source.serverVersion()?.gitVersion,
  };
}

function watchesOf(agent: AgentState): Watch[] {
  return resources.map((resource) => watchOf(agent, resource));
}

type Watch = Status['watches'][number];

function watchOf({ source }: AgentState, resource: Watch['resource']): Watch {
  const { silenceMs, missingMs, failure } = source.condition(resource);
  const state =
    missingMs !== undefined
      ? 'missing'
      : silenceMs === undefined
        ? 'unused'
        : silenceMs > staleAfterMs
          ? 'silent'
          : 'watching';
  return {
    resource,
    state,
    silenceSeconds: silenceMs && seconds(silenceMs),
    missingSeconds: missingMs && seconds(missingMs),
    failure,
  };
}

function familyOf(sync: FamilySync, history: FamilyHistory): Status['families'][number] {
  const { behindMs, phase, waiting } = sync.progress;
  return {
    family: sync.family,
    phase,
    waiting,
    behindSeconds: behindMs && seconds(behindMs),
    inForce: sync.inForce.size,
    lastSync: lastSync(history),
    lastFailure: lastFailure(history),
    lastDrift: lastDrift(history),
    repairs: history.drifts,
  };
}

function lastSync({ sync }: FamilyHistory): Status['families'][number]['lastSync'] {
  if (sync === undefined) return undefined;
  const { purpose, ok, durationMs } = sync.event;
  return { time: timeText(sync.timeMs), purpose, ok, durationMs: Math.round(durationMs * 10) / 10 };
}

function lastFailure({ failure }: FamilyHistory): Status['families'][number]['lastFailure'] {
  if (failure === undefined) return undefined;
  const [first] = failure.event.failures;
  return {
    time: timeText(failure.timeMs),
    error: first === undefined ? 'not known' : failureText(first),
  };
}

function lastDrift({ drift }: FamilyHistory): Status['families'][number]['lastDrift'] {
  if (drift === undefined) return undefined;
  const { by, drift: found, writers } = drift.event;
  return {
    time: timeText(drift.timeMs),
    missing: found.missing,
    wrong: found.wrong,
    unwanted: found.unwanted,
    writers,
    program: by && `${by.program} (process ${by.pid})`,
  };
}

function asideOf(sync: FamilySync, entry: Quarantined, clock: Clock) {
  const { namespace, name, port, protocol } = entry.forwarding.servicePort;
  const nowMs = clock.now();
  const retryMs = Math.max(0, entry.retryAtMs - nowMs);
  return {
    namespace,
    service: name,
    port,
    protocol,
    family: sync.family,
    since: timeOf(clock, sync.statusOf(entry.key)?.sinceMs ?? nowMs),
    error: failureText(entry.failure),
    attempts: entry.attempts,
    retrySeconds: Number.isFinite(retryMs) ? seconds(retryMs) : undefined,
    earlierInForce: entry.inForce !== undefined,
  };
}

/** The time in RFC 3339 format. */
function timeText(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

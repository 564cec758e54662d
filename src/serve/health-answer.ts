/**
 * Answers of probes, computed from facts only, so that the event loop and the HTTP thread give the
 * same answer (behaviour document 10.1).
 */
import { jsonHeaders, type TextReply } from './reply.ts';

/** Servers send bookmarks once a minute, and a silent watch is replaced after 90 s. */
export const staleAfterMs = 120_000;

/**
 * The proxy is unhealthy when its event loop has been blocked for this long: it follows no change.
 */
const loopStuckMs = 30_000;

interface FamilyFacts {
  readonly family: string;
  /** The time of the last sync; milliseconds since the epoch. */
  readonly updatedMs?: number | undefined;
  /** The time of the oldest request without a sync since then; by `monotonicMs`. */
  readonly queuedMs?: number | undefined;
}

interface ListFacts {
  readonly resource: string;
  /** See `Condition` of the source. */
  readonly silenceMs?: number | undefined;
  readonly missingMs?: number | undefined;
  readonly failure?: string | undefined;
}

/** The input of answers to probes. */
export interface HealthFacts {
  /** The time of these facts; milliseconds, monotonic. */
  readonly monotonicMs: number;
  readonly timeoutMs: number;
  readonly families: readonly FamilyFacts[];
  readonly nodeEligible: boolean;
  /** Whether it is known if this Node exists. */
  readonly nodeListed: boolean;
  readonly lists: readonly ListFacts[];
  readonly overLimit: number;
  readonly behindMs: number;
}

/** The time of the question. */
export interface Moment {
  /** Milliseconds since the epoch. */
  readonly wallMs: number;
  /** The age of the facts in milliseconds. */
  readonly elapsedMs: number;
  /** For how long the event loop has been blocked. */
  readonly loopSilentMs: number;
}

export type ProbePath = '/healthz' | '/livez' | '/readyz';
export const probePaths: readonly string[] = [
  '/healthz',
  '/livez',
  '/readyz',
] satisfies ProbePath[];

export function isHealthy(facts: HealthFacts, moment: Moment): boolean {
  return (
    moment.loopSilentMs < loopStuckMs &&
    facts.families.every((family) => isKeepingUp(family, facts, moment))
  );
}

export function probeAnswer(path: ProbePath, facts: HealthFacts, moment: Moment): TextReply {
  const { families, nodeEligible } = facts;
  // For load balancers: also fails when the node is about to be deleted.
  if (path === '/healthz') return reply(facts, moment, { nodeEligible });
  const live = reply(facts, moment, {});
  if (path === '/livez') return live;
  const synced = families.length > 0 && families.every(({ updatedMs }) => updatedMs !== undefined);
  return synced ? live : { ...live, status: 503 };
}

function reply(
  facts: HealthFacts,
  moment: Moment,
  eligibility: { readonly nodeEligible?: boolean },
): TextReply {
  const { families } = facts;
  const { wallMs } = moment;
  const healthy = isHealthy(facts, moment);
  const ok = healthy && eligibility.nodeEligible !== false;
  const updates = families.flatMap(({ updatedMs }) => updatedMs ?? []);
  // While it is healthy, kube-proxy gives the current time, and load balancers rely on that.
  const lastUpdated = ok ? wallMs : updates.length > 0 ? Math.max(...updates) : undefined;
  const body = {
    lastUpdated: rfc3339Nano(lastUpdated),
    currentTime: rfc3339Nano(wallMs),
    ...eligibility,
    healthy,
    ...(families.length === 0 ? {} : { status: statusOf(facts, moment) }),
    ...missingLists(facts, moment),
    ...staleWatches(facts, moment),
    ...(facts.overLimit === 0 ? {} : { servicesOverLimit: facts.overLimit }),
    ...(facts.behindMs === 0 ? {} : { behindSeconds: seconds(facts.behindMs) }),
    ...(moment.loopSilentMs < loopStuckMs
      ? {}
      : { eventLoopStuckSeconds: seconds(moment.loopSilentMs) }),
  };
  return { status: ok ? 200 : 503, headers: jsonHeaders, body: JSON.stringify(body) };
}

function isKeepingUp(
  { queuedMs }: FamilyFacts,
  facts: HealthFacts,
  { elapsedMs }: Moment,
): boolean {
  return queuedMs === undefined || facts.monotonicMs + elapsedMs - queuedMs < facts.timeoutMs;
}

function statusOf(facts: HealthFacts, moment: Moment): Record<string, unknown> {
  const families = [...facts.families].sort((a, b) => (a.family < b.family ? -1 : 1));
  const isTurning = moment.loopSilentMs < loopStuckMs;
  return Object.fromEntries(
    families.map((one) => [
      one.family,
      {
        lastUpdated: rfc3339Nano(one.updatedMs),
        healthy: isTurning && isKeepingUp(one, facts, moment),
      },
    ]),
  );
}

/** Missing first lists: for how many seconds, and why. */
function missingLists({ lists }: HealthFacts, { elapsedMs }: Moment) {
  const missing = lists.flatMap(({ resource, missingMs, failure }) => {
    if (missingMs === undefined) return [];
    return [[resource, { seconds: seconds(missingMs + elapsedMs), reason: failure }]];
  });
  return missing.length === 0 ? {} : { missingLists: Object.fromEntries(missing) };
}

/**
 * Watches that were silent for too long, in seconds. They do not make the proxy unhealthy: a failed
 * API server affects all nodes at the same time, and their rules continue to work.
 */
function staleWatches({ lists }: HealthFacts, { elapsedMs }: Moment) {
  const stale = lists.flatMap(({ resource, silenceMs }) => {
    if (silenceMs === undefined || silenceMs + elapsedMs <= staleAfterMs) return [];
    return [[resource, seconds(silenceMs + elapsedMs)]];
  });
  return stale.length === 0 ? {} : { staleWatches: Object.fromEntries(stale) };
}

/** Rounded to three decimal places. */
export function seconds(ms: number): number {
  return Math.round(ms) / 1000;
}

/**
 * A time in the format of Go's RFC3339Nano: fractions without trailing zeroes. Undefined is Go's
 * zero time. `timeMs`: milliseconds since the epoch, with fractions down to microseconds.
 */
export function rfc3339Nano(timeMs: number | undefined): string {
  if (timeMs === undefined) return '0001-01-01T00:00:00Z';
  const micros = Math.round(timeMs * 1000);
  const seconds = new Date(Math.floor(micros / 1_000_000) * 1000).toISOString().slice(0, 19);
  const fraction = String(micros % 1_000_000).padStart(6, '0');
  return `${seconds}.${fraction}`.replace(/\.?0+$/, '').concat('Z');
}

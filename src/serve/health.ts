/** The health server's answers: whether the proxy does its work (behaviour document 10.1). */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Family } from '../net/address.ts';
import type { Condition } from '../source/source.ts';
import { type Resource, resources } from '../state/change.ts';
import type { Node } from '../state/types.ts';
import { jsonHeaders, type TextReply } from './server.ts';
import { staleAfterMs } from './source-report.ts';

/** With this taint the cluster autoscaler announces that it will delete the node. */
const deletionTaint = 'ToBeDeletedByClusterAutoscaler';

/** Load balancers wait for an answer for at least a second. */
const firstWordMs = 800;
const firstWordStepMs = 20;

interface FamilyState {
  updatedMs: number | undefined;
  /** The time of the oldest request that no sync has answered; monotonic. */
  queuedMs: number | undefined;
}

interface HealthOptions {
  /**
   * The proxy is unhealthy when a sync was asked for so long ago and is not done: 2 x syncPeriod.
   */
  readonly timeoutMs: () => number;
  /** Milliseconds since the epoch, with fractions: for people to read, because it may jump. */
  readonly now: () => number;
  /** Milliseconds, monotonic: for deadlines. */
  readonly monotonicMs: () => number;
  /** This node as last seen; undefined = never. */
  readonly node: () => Node | undefined;
  /** The source has said whether there is such a Node. */
  readonly nodeListed: () => boolean;
  readonly condition: (resource: Resource) => Condition;
  /** Services that ask for more than one Service gets. */
  readonly overLimit: () => number;
  /** The longest `Backlog.behindMs`; 0 = no family is behind. */
  readonly behindMs: () => number;
}

export class ProxyHealth {
  readonly #options: HealthOptions;
  readonly #families = new Map<Family, FamilyState>();

  constructor(options: HealthOptions) {
    this.#options = options;
  }

  /** A sync was asked for. */
  queued(family: Family): void {
    const state = this.#family(family);
    state.queuedMs ??= this.#options.monotonicMs();
  }

  /** A sync is done. */
  updated(family: Family): void {
    const state = this.#family(family);
    state.updatedMs = this.#options.now();
    state.queuedMs = undefined;
  }

  get healthy(): boolean {
    return [...this.#families.values()].every((state) => this.#isHealthy(state));
  }

  /** New connections may be sent to this node. An unknown node is not eligible. */
  get nodeEligible(): boolean {
    const node = this.#options.node();
    return node !== undefined && !node.deleted && !node.taintKeys.includes(deletionTaint);
  }

  /**
   * Resolves when it is known whether this Node exists, or soon in any case. Right after the start
   * it is not known, and rules of an earlier process serve: a load balancer that got a "no" would
   * move connections to other nodes, which do not know them.
   */
  async firstWord(): Promise<void> {
    for (let waitedMs = 0; waitedMs < firstWordMs; waitedMs += firstWordStepMs) {
      if (this.#options.nodeListed()) return;
      await sleep(firstWordStepMs);
    }
  }

  /** For load balancers: also fails when the node is about to be deleted. */
  healthz(): TextReply {
    return this.#reply({ nodeEligible: this.nodeEligible });
  }

  /** For the kubelet: does not depend on whether the node drains. */
  livez(): TextReply {
    return this.#reply({});
  }

  /** For the kubelet, under a path that kube-proxy does not have: also needs the first sync. */
  readyz(): TextReply {
    const states = [...this.#families.values()];
    const synced = states.length > 0 && states.every(({ updatedMs }) => updatedMs !== undefined);
    return synced ? this.livez() : { ...this.livez(), status: 503 };
  }

  #reply(eligibility: { readonly nodeEligible?: boolean }): TextReply {
    const { healthy } = this;
    const ok = healthy && eligibility.nodeEligible !== false;
    const now = this.#options.now();
    const updates = [...this.#families.values()].flatMap(({ updatedMs }) => updatedMs ?? []);
    // While all is well, kube-proxy gives the present time, and load balancers rely on that.
    const lastUpdated = ok ? now : updates.length > 0 ? Math.max(...updates) : undefined;
    const body = {
      lastUpdated: rfc3339Nano(lastUpdated),
      currentTime: rfc3339Nano(now),
      ...eligibility,
      healthy,
      ...(this.#families.size === 0 ? {} : { status: this.#status() }),
      ...this.#missingLists(),
      ...this.#staleWatches(),
      ...this.#overLimit(),
      ...this.#behind(),
    };
    return { status: ok ? 200 : 503, headers: jsonHeaders, body: JSON.stringify(body) };
  }

  #status(): Record<string, unknown> {
    const families = [...this.#families].sort(([a], [b]) => (a < b ? -1 : 1));
    return Object.fromEntries(
      families.map(([family, state]) => [
        family,
        { lastUpdated: rfc3339Nano(state.updatedMs), healthy: this.#isHealthy(state) },
      ]),
    );
  }

  /** First lists that have not come yet: for how many seconds, and why. */
  #missingLists(): { readonly missingLists?: Record<string, object> } {
    const missing = resources.flatMap((resource) => {
      const { missingMs, failure } = this.#options.condition(resource);
      if (missingMs === undefined) return [];
      return [[resource, { seconds: Math.round(missingMs) / 1000, reason: failure }]];
    });
    return missing.length === 0 ? {} : { missingLists: Object.fromEntries(missing) };
  }

  /**
   * Watches that were silent for too long, in seconds. They do not make the proxy unhealthy: when
   * an API server is down, it is down for all nodes at once, and their rules go on working.
   */
  #staleWatches(): { readonly staleWatches?: Record<string, number> } {
    const stale = resources.flatMap((resource) => {
      const { silenceMs = 0 } = this.#options.condition(resource);
      return silenceMs > staleAfterMs ? [[resource, Math.round(silenceMs) / 1000]] : [];
    });
    return stale.length === 0 ? {} : { staleWatches: Object.fromEntries(stale) };
  }

  /** They do not make the proxy unhealthy, because all nodes have the same limits. */
  #overLimit(): { readonly servicesOverLimit?: number } {
    const servicesOverLimit = this.#options.overLimit();
    return servicesOverLimit === 0 ? {} : { servicesOverLimit };
  }

  /**
   * Changes come faster than they can be written. They do not make the proxy unhealthy, because
   * each Service is served as it was a while ago, and a restart would take longer.
   */
  #behind(): { readonly behindSeconds?: number } {
    const behindMs = this.#options.behindMs();
    return behindMs === 0 ? {} : { behindSeconds: Math.round(behindMs) / 1000 };
  }

  #isHealthy({ queuedMs }: FamilyState): boolean {
    const { monotonicMs, timeoutMs } = this.#options;
    return queuedMs === undefined || monotonicMs() - queuedMs < timeoutMs();
  }

  #family(family: Family): FamilyState {
    let state = this.#families.get(family);
    if (state === undefined) {
      state = { updatedMs: undefined, queuedMs: undefined };
      this.#families.set(family, state);
    }
    return state;
  }
}

/**
 * A time as Go's RFC3339Nano prints it: fractions without trailing zeroes. Undefined is Go's
 * zero time. `timeMs` are milliseconds since the epoch, with fractions down to microseconds.
 */
export function rfc3339Nano(timeMs: number | undefined): string {
  if (timeMs === undefined) return '0001-01-01T00:00:00Z';
  const micros = Math.round(timeMs * 1000);
  const seconds = new Date(Math.floor(micros / 1_000_000) * 1000).toISOString().slice(0, 19);
  const fraction = String(micros % 1_000_000).padStart(6, '0');
  return `${seconds}.${fraction}`.replace(/\.?0+$/, '').concat('Z');
}

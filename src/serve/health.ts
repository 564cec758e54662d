/** Answers of the health server: whether the proxy is healthy (behaviour document 10.1). */
import type { Family } from '../net/address.ts';
import type { Condition } from '../source/source.ts';
import { type Resource, resources } from '../state/change.ts';
import type { Node } from '../state/types.ts';
import { type HealthFacts, isHealthy, type ProbePath, probeAnswer } from './health-answer.ts';
import type { TextReply } from './reply.ts';

/** With this taint the cluster autoscaler announces that it will delete the node. */
const deletionTaint = 'ToBeDeletedByClusterAutoscaler';

interface FamilyState {
  updatedMs: number | undefined;
  /** The time of the oldest request without a sync since then; monotonic. */
  queuedMs: number | undefined;
}

interface HealthOptions {
  /**
   * The proxy is unhealthy when a requested sync has not been done after this time: 2 x syncPeriod.
   */
  readonly timeoutMs: () => number;
  /** Milliseconds since the epoch, with fractions: to be shown, because it may jump. */
  readonly now: () => number;
  /** Milliseconds, monotonic: for deadlines. */
  readonly monotonicMs: () => number;
  /** This node as last seen; undefined = never. */
  readonly node: () => Node | undefined;
  /** Whether the source has reported if this Node exists. */
  readonly nodeListed: () => boolean;
  readonly condition: (resource: Resource) => Condition;
  /** The number of Services that exceed a limit. */
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

  /** A sync was requested. */
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
    return isHealthy(this.facts(), this.#moment());
  }

  /** Whether new connections may be sent to this node. An unknown node is not eligible. */
  get nodeEligible(): boolean {
    const node = this.#options.node();
    return node !== undefined && !node.deleted && !node.taintKeys.includes(deletionTaint);
  }

  /** The input of answers to probes. */
  facts(): HealthFacts {
    const { behindMs, condition, monotonicMs, nodeListed, overLimit, timeoutMs } = this.#options;
    return {
      monotonicMs: monotonicMs(),
      timeoutMs: timeoutMs(),
      families: [...this.#families].map(([family, state]) => ({ family, ...state })),
      nodeEligible: this.nodeEligible,
      nodeListed: nodeListed(),
      lists: resources.map((resource) => ({ resource, ...condition(resource) })),
      overLimit: overLimit(),
      behindMs: behindMs(),
    };
  }

  /** The current answer, which the HTTP thread would give, too. */
  answer(path: ProbePath): TextReply {
    return probeAnswer(path, this.facts(), this.#moment());
  }

  /** This code runs on the event loop, so the loop is not blocked. */
  #moment() {
    return { wallMs: this.#options.now(), elapsedMs: 0, loopSilentMs: 0 };
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

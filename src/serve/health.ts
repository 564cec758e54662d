/** The health server's answers: whether the proxy does its work (behaviour document 10.1). */
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
    return isHealthy(this.facts(), this.#moment());
  }

  /** New connections may be sent to this node. An unknown node is not eligible. */
  get nodeEligible(): boolean {
    const node = this.#options.node();
    return node !== undefined && !node.deleted && !node.taintKeys.includes(deletionTaint);
  }

  /** Whether it is known that this Node exists. */
  get nodeListed(): boolean {
    return this.#options.nodeListed();
  }

  /** What probes are answered from. */
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

  /** The answer now. The HTTP thread gives the same. */
  answer(path: ProbePath): TextReply {
    return probeAnswer(path, this.facts(), this.#moment());
  }

  /** On the event loop, it turns. */
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

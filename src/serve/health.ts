/** Answers of the health server: whether the proxy is healthy (behaviour document 10.1). */

import type { Config } from '../config/config.ts';
import type { Family } from '../net/address.ts';
import { madeAt } from '../net/made-at.ts';
import type { Condition } from '../source/source.ts';
import { type Resource, resources } from '../state/change.ts';
import type { Node } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';
import { type HealthFacts, isHealthy, type ProbePath, probeAnswer } from './health-answer.ts';
import type { TextReply } from './reply.ts';

/** With this taint the cluster autoscaler announces that it will delete the node. */
const deletionTaint = 'ToBeDeletedByClusterAutoscaler';

interface FamilyState {
  updatedMs: number | undefined;
  /** The time of the oldest request without a sync since then; monotonic. */
  queuedMs: number | undefined;
}

/** What is true now. */
export interface HealthInput {
  readonly clock: Pick<Clock, 'now' | 'wallMs'>;
  readonly source: { condition(resource: Resource): Condition };
  /** This node as last seen; undefined = never. */
  readonly state: { readonly node: Node | undefined };
  readonly config: Pick<Config, 'healthzNodeShutdown'>;
  /** The source has reported whether this Node exists. */
  readonly nodeListed: boolean;
  /**
   * The proxy is unhealthy when a requested sync has not been done after this time: 2 x syncPeriod.
   */
  readonly timeoutMs: number;
  /** The number of Services that exceed a limit. */
  readonly overLimit: number;
  /** The longest `Backlog.behindMs`; 0 = no family is behind. */
  readonly behindMs: number;
}

export class ProxyHealth {
  readonly #input: HealthInput;
  readonly #families = new Map<Family, FamilyState>();
  /** No endpoint of another node answers; see `NetworkHealth`. */
  isCutOff = false;

  constructor(input: HealthInput) {
    this.#input = input;
  }

  /** A sync was requested. */
  queued(family: Family): void {
    const state = this.#family(family);
    state.queuedMs ??= this.#input.clock.now();
  }

  /** A sync is done. */
  updated(family: Family): void {
    const state = this.#family(family);
    state.updatedMs = this.#input.clock.wallMs();
    state.queuedMs = undefined;
  }

  get healthy(): boolean {
    return isHealthy(this.facts(), this.#moment());
  }

  /** Whether new connections may be sent to this node. An unknown node is not eligible. */
  get nodeEligible(): boolean {
    const { config, state } = this.#input;
    const { node } = state;
    if (this.isCutOff) return false;
    if (node === undefined || (config.healthzNodeShutdown && node.isShuttingDown)) return false;
    return !node.deleted && !node.taintKeys.includes(deletionTaint);
  }

  /** The input of answers to probes. */
  facts(): HealthFacts {
    const { behindMs, clock, nodeListed, overLimit, source, timeoutMs } = this.#input;
    return {
      monotonicMs: clock.now(),
      timeoutMs,
      families: [...this.#families].map(([family, state]) => ({ family, ...state })),
      nodeEligible: this.nodeEligible,
      nodeListed,
      lists: resources.map((resource) => ({ resource, ...source.condition(resource) })),
      overLimit,
      behindMs,
    };
  }

  /** The current answer, which the HTTP thread would give, too. */
  answer(path: ProbePath): TextReply {
    return probeAnswer(path, this.facts(), this.#moment());
  }

  /** This code runs on the event loop, so the loop is not blocked. */
  #moment() {
    return { wallMs: this.#input.clock.wallMs(), elapsedMs: 0, loopSilentMs: 0 };
  }

  #family(family: Family): FamilyState {
    return madeAt(this.#families, family, () => ({ updatedMs: undefined, queuedMs: undefined }));
  }
}

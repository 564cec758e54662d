/**
 * The pods whose connections are left to the rules although others are translated when they are
 * made, as cgroups. What is known stays in force while nothing better is: when pods cannot be
 * watched for a while, and from an earlier process.
 */
import { isDeepStrictEqual } from 'node:util';
import { PodCgroups } from './host/pod-cgroups.ts';
import type { Kernel } from './kernel/kernel.ts';
import { readExcluded } from './modes/connect-time/excluded.ts';
import type { Exclusion } from './modes/connect-time/facts.ts';
import { excludedMax } from './modes/connect-time/layout.ts';
import type { Placement } from './modes/connect-time/placement.ts';
import type { Family } from './net/address.ts';
import type { ClusterEvents } from './serve/cluster-events.ts';
import type { Logger } from './serve/log.ts';
import type { ChosenPod, PodSink, WatchPods } from './source/pods.ts';
import { type Clock, Wakeup } from './sync/clock.ts';

export interface ExcludedPodsOptions {
  readonly families: readonly Family[];
  readonly kernel: Kernel;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: Pick<ClusterEvents, 'excludedPodsUnknown'>;
  /** Absent where the source has no pods. */
  readonly watchPods?: WatchPods;
  /** Takes what the watch reports. */
  readonly source: Pick<PodSink, 'problem' | 'listed'>;
  /** `cgroups` is another one now. */
  readonly changed: () => void;
}

/** While a pod has no cgroup, it is looked for again: the kubelet makes it soon. */
const firstLookMs = 50;
const rareLookMs = 5000;
/** Looking takes a tenth of the time at most, whatever others do to pods and cgroups. */
const restFactor = 10;
const restMaxMs = 1000;

export class ExcludedPods {
  readonly #options: ExcludedPodsOptions;
  #selector = '';
  #watch: { readonly ending: AbortController; readonly ended: Promise<void> } | undefined;
  #pods: ReadonlyMap<string, ChosenPod> | undefined;
  #excluded = 0;
  #failure: string | undefined;
  #cgroups: readonly bigint[] | undefined;
  #isFull = false;

  constructor(options: ExcludedPodsOptions) {
    this.#options = options;
  }

  /** Numbers of cgroups; undefined = none is to be excluded, or it is not known which. */
  get cgroups(): readonly bigint[] | undefined {
    return this.#cgroups;
  }

  /** Undefined: no pods are to be excluded. */
  get exclusion(): Exclusion | undefined {
    if (this.#selector === '') return undefined;
    const [selector, failure, excluded] = [this.#selector, this.#failure, this.#excluded];
    return { selector, failure, excluded, pods: this.#pods?.size };
  }

  /** Follows the pods that `selector` chooses from now on. Without a placement: none. */
  async follow(selector: string, placement: Placement | undefined): Promise<void> {
    const wanted = placement === undefined ? '' : selector;
    if (wanted === this.#selector) return;
    await this.close();
    this.#selector = wanted;
    this.#pods = undefined;
    this.#failure = undefined;
    this.#excluded = 0;
    if (placement === undefined || wanted === '') {
      this.#cgroups = undefined;
      return;
    }
    const { families, kernel } = this.#options;
    this.#cgroups ??= await readExcluded(kernel, placement, families);
    const ending = new AbortController();
    const ended = this.#run(wanted, placement.cgroup, ending.signal);
    this.#watch = { ending, ended };
  }

  /** Ends the watch. What is excluded stays so. */
  async close(): Promise<void> {
    this.#watch?.ending.abort();
    await this.#watch?.ended;
    this.#watch = undefined;
  }

  async #run(selector: string, root: string, signal: AbortSignal): Promise<void> {
    const { clock, watchPods } = this.#options;
    const news = new Wakeup(clock);
    signal.addEventListener('abort', () => news.wake(), { once: true });
    const sink = this.#sink(() => news.wake());
    const looking = this.#look(root, news, signal);
    if (watchPods === undefined) sink.unavailable('they do not come from an API server');
    else {
      await watchPods(selector, sink, signal).catch(({ message }: Error) =>
        sink.unavailable(message),
      );
    }
    await looking;
  }

  #sink(tell: () => void): PodSink {
    const { events, log, source } = this.#options;
    return {
      chosen: (pods) => {
        this.#pods = pods;
        if (this.#failure !== undefined)
          log.info('Read the pods to exclude from connect-time translation');
        this.#failure = undefined;
        tell();
      },
      unavailable: (reason) => {
        this.#failure = reason;
        const meanwhile =
          this.#cgroups === undefined
            ? 'rules translate the connections of all pods'
            : 'those that were excluded before stay excluded';
        log.warn(
          { err: reason, meanwhile },
          'Could not read the pods to exclude from connect-time translation',
        );
        events.excludedPodsUnknown(`${reason}; ${meanwhile}`);
      },
      problem: (problem) => source.problem(problem),
      listed: (attempt) => source.listed(attempt),
    };
  }

  /** Looks for cgroups: when pods or cgroups change, soon when one is missing, and at times. */
  async #look(root: string, news: Wakeup, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const cgroups = new PodCgroups(root, () => news.wake());
    for (let waitMs = rareLookMs; ; ) {
      const isNew = await news.wait(waitMs);
      if (signal.aborted) break;
      if (this.#pods === undefined) continue;
      const startMs = clock.now();
      const missing = await this.#find(cgroups, this.#pods);
      if (missing === 0) waitMs = rareLookMs;
      else waitMs = isNew ? firstLookMs : Math.min(2 * waitMs, rareLookMs);
      await new Wakeup(clock).wait(Math.min(restFactor * (clock.now() - startMs), restMaxMs));
    }
    cgroups.close();
  }

  /** Returns how many pods have no cgroup. */
  async #find(cgroups: PodCgroups, pods: ReadonlyMap<string, ChosenPod>): Promise<number> {
    const found = await cgroups.find(new Set(Array.from(pods.values(), ({ id }) => id)));
    this.#excluded = found.size;
    this.#set([...found.values()].flat());
    return pods.size - found.size;
  }

  #set(numbers: readonly bigint[]): void {
    const isFull = numbers.length > excludedMax;
    if (isFull && !this.#isFull) {
      const { log } = this.#options;
      log.warn(
        { cgroups: numbers.length, max: excludedMax },
        'Too many pods to exclude from connect-time translation',
      );
    }
    this.#isFull = isFull;
    const next = numbers.slice(0, excludedMax);
    if (isDeepStrictEqual(next, this.#cgroups)) return;
    this.#cgroups = next;
    this.#options.changed();
  }
}

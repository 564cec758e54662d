/**
 * The cgroups of pods that are excluded from connect-time translation, so that only rules serve
 * them. The last known set stays in force until there is a new one: while pods cannot be watched,
 * and from an earlier process.
 */

import { once } from 'node:events';
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { PodCgroups } from '../host/pod-cgroups.ts';
import { isKernelError } from '../kernel/errors.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { Family } from '../net/address.ts';
import type { ChosenPod, PodSink, WatchPods } from '../source/pods.ts';
import type { Clock } from '../time/clock.ts';
import { noPause } from '../time/pacer.ts';
import { Runner } from '../time/runner.ts';
import type { ConnectTimeEvents } from './maps/events.ts';
import type { Exclusion } from './maps/facts.ts';
import {
  allExcluded,
  excludedMax,
  keyBytes,
  mapNames,
  readExcludedKey,
  valueBytes,
} from './maps/layout.ts';
import { isReadable, readPinned } from './maps/pinned.ts';
import type { Placement } from './maps/placement.ts';
import { readMap } from './maps/read-map.ts';

export interface ExcludedPodsOptions {
  readonly agent: {
    readonly enabledFamilies: readonly Family[];
    /** Woken after `cgroups` was replaced. */
    readonly engine: { wake(): void } | undefined;
  };
  readonly kernel: Kernel;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: ConnectTimeEvents;
  /** Absent if the source has no pods. */
  readonly watchPods?: WatchPods;
  /** Receives reports of the watch. */
  readonly source: Pick<PodSink, 'problem' | 'listed'>;
  /** The most cgroups that are excluded. Default: as many as the map holds. */
  readonly excludedCgroupsMax?: number;
}

/** The interval of searches while a pod has no cgroup: the kubelet creates it soon. */
const firstLookMs = 50;
const rareLookMs = 5000;
/** Searches take at most a tenth of the time, however often pods and cgroups change. */
const restFactor = 10;
const restMaxMs = 1000;

/** The pods that a selector chooses. */
interface Chosen {
  readonly selector: string;
  pods: ReadonlyMap<string, ChosenPod> | undefined;
  /** Those of them whose cgroups are known. */
  excluded: number;
  /** Why they cannot be read. */
  failure: string | undefined;
}

function chosenBy(selector: string): Chosen {
  return { selector, pods: undefined, excluded: 0, failure: undefined };
}

export class ExcludedPods {
  readonly #options: ExcludedPodsOptions;
  #chosen: Chosen = chosenBy('');
  #watch: { readonly ending: AbortController; readonly ended: Promise<void> } | undefined;
  #cgroups: readonly bigint[] | undefined;
  #isFull = false;

  constructor(options: ExcludedPodsOptions) {
    this.#options = options;
  }

  /** Ids of cgroups; undefined = none is excluded, or it is not known which. */
  get cgroups(): readonly bigint[] | undefined {
    return this.#cgroups;
  }

  /** Undefined: no pods are excluded. */
  get exclusion(): Exclusion | undefined {
    const { excluded, failure, pods, selector } = this.#chosen;
    return selector === '' ? undefined : { selector, failure, excluded, pods: pods?.size };
  }

  /** Watches the pods that `selector` matches from now on. Without a placement: none. */
  async follow(selector: string, placement: Placement | undefined): Promise<void> {
    const next = placement === undefined ? '' : selector;
    if (next === this.#chosen.selector) return;
    await this.close();
    this.#chosen = chosenBy(next);
    if (placement === undefined || next === '') {
      this.#cgroups = undefined;
      return;
    }
    const { agent, kernel } = this.#options;
    this.#cgroups ??= await readExcluded(kernel, placement, agent.enabledFamilies);
    const ending = new AbortController();
    const ended = this.#run(next, placement.cgroup, ending.signal);
    this.#watch = { ending, ended };
  }

  /** Ends the watch. The excluded cgroups stay excluded. */
  async close(): Promise<void> {
    this.#watch?.ending.abort();
    await this.#watch?.ended;
    this.#watch = undefined;
  }

  async #run(selector: string, root: string, signal: AbortSignal): Promise<void> {
    const { watchPods } = this.#options;
    const search = this.#search(root);
    const searched = once(signal, 'abort').then(search.stop);
    const sink = this.#sink(search.changed);
    if (watchPods === undefined) sink.unavailable('they do not come from an API server');
    else {
      await watchPods(selector, sink, signal).catch(({ message }: Error) =>
        sink.unavailable(message),
      );
    }
    await searched;
  }

  #sink(changed: () => void): PodSink {
    const { events, log, source } = this.#options;
    return {
      chosen: (pods) => {
        const { failure } = this.#chosen;
        if (failure !== undefined)
          log.info('Read the pods to exclude from connect-time translation');
        this.#chosen.pods = pods;
        this.#chosen.failure = undefined;
        changed();
      },
      unavailable: (reason) => {
        this.#chosen.failure = reason;
        const fallback =
          this.#cgroups === undefined
            ? 'rules translate the connections of all pods'
            : 'those that were excluded before stay excluded';
        log.warn(
          { err: reason, fallback },
          'Could not read the pods to exclude from connect-time translation',
        );
        events.aboutNode('ExcludedPodsUnknown', `${reason}; ${fallback}`);
      },
      problem: (problem) => source.problem(problem),
      listed: (attempt) => source.listed(attempt),
    };
  }

  /** Searches cgroups: when pods or cgroups change, soon while one is missing, and periodically. */
  #search(root: string): { readonly changed: () => void; readonly stop: () => Promise<void> } {
    let waitMs = rareLookMs;
    const work = async (): Promise<void> => {
      if (this.#chosen.pods === undefined) return;
      const missing = await this.#find(cgroups, this.#chosen.pods);
      waitMs = missing === 0 ? rareLookMs : Math.min(2 * waitMs, rareLookMs);
      searches.soon(waitMs);
    };
    const restMs = (tookMs: number): number => Math.min(restFactor * tookMs, restMaxMs);
    const searches = new Runner({ clock: this.#options.clock, work, restMs });
    const changed = (): void => {
      waitMs = firstLookMs / 2;
      searches.now();
    };
    const cgroups = new PodCgroups(root, changed);
    const stop = async (): Promise<void> => {
      await searches.stop();
      cgroups.close();
    };
    return { changed, stop };
  }

  /** Returns the number of pods without a cgroup. */
  async #find(cgroups: PodCgroups, pods: ReadonlyMap<string, ChosenPod>): Promise<number> {
    const found = await cgroups.find(new Set(Array.from(pods.values(), ({ id }) => id)));
    this.#chosen.excluded = found.size;
    this.#set([...found.values()].flat());
    return pods.size - found.size;
  }

  #set(numbers: readonly bigint[]): void {
    const { log, excludedCgroupsMax: max = excludedMax } = this.#options;
    const isFull = numbers.length > max;
    if (isFull && !this.#isFull) {
      log.warn(
        { cgroups: numbers.length, max },
        'Too many pods to exclude from connect-time translation',
      );
    }
    this.#isFull = isFull;
    const next = numbers.slice(0, max);
    if (isDeepStrictEqual(next, this.#cgroups)) return;
    this.#cgroups = next;
    this.#options.agent.engine?.wake();
  }
}

const sizes = { keyBytes: keyBytes.excluded, valueBytes: valueBytes.excluded } as const;

/** The excluded cgroups in the kernel; undefined = they may be incomplete. */
async function readExcluded(
  kernel: Kernel,
  placement: Placement,
  families: readonly Family[],
): Promise<readonly bigint[] | undefined> {
  const found = new Set<bigint>();
  try {
    for (const family of families) {
      const { maps } = await readPinned(kernel, placement, family, false);
      if (!isReadable(maps)) continue;
      const map = { directory: placement.directory, map: mapNames[family].excluded, ...sizes };
      await readMap(kernel, map, noPause, (key) => found.add(readExcludedKey(key)));
    }
  } catch (error) {
    // Writing the maps fails in the same way, and is reported.
    if (!isKernelError(error)) throw error;
  }
  return found.delete(allExcluded) ? [...found] : undefined;
}

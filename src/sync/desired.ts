/** From dirty Services to what each family wants: resolve, settle claims, hand over. */

import type { Family } from '../state/address.ts';
import { type ClaimResult, Claims } from '../state/claims.ts';
import { type ResolveContext, resolve } from '../state/resolve.ts';
import type { ClusterState } from '../state/store.ts';
import type { TriggerTime } from '../state/trigger-times.ts';
import { type Forwarding, forwardingKey, type Service } from '../state/types.ts';
import type { Clock } from './clock.ts';
import type { Observer } from './events.ts';
import type { FamilySync } from './family.ts';

export interface DesiredOptions {
  readonly state: ClusterState;
  readonly families: readonly FamilySync[];
  /** What Forwardings depend on besides Services and slices, as of now. */
  readonly context: () => ResolveContext;
  readonly clock: Clock;
  readonly observer: Observer;
  /** A Service (`namespace/name`) was handed over, or has gone. */
  readonly resolved?: (service: string) => void;
}

const noKeys: readonly string[] = [];
const noTimes: readonly number[] = [];

export class Desired {
  readonly #options: DesiredOptions;
  readonly #claims = new Claims();
  /** Keys of the Forwardings of each Service that has any. */
  readonly #keys: Readonly<Record<Family, Map<string, readonly string[]>>> = {
    IPv4: new Map(),
    IPv6: new Map(),
  };

  constructor(options: DesiredOptions) {
    this.#options = options;
  }

  /**
   * Resolves one Service again and tells the families. Returns the Services whose claims that
   * changed: they are to be refreshed next. A Service that can't be resolved keeps what it has.
   */
  refresh(name: string, receivedMs: number): readonly string[] {
    const { state, observer } = this.#options;
    const service = state.service(name);
    if (service === undefined) {
      this.#want(name, [], receivedMs);
      return this.#claims.release(name);
    }
    try {
      const { forwardings, again, conflicts } = this.#resolve(service);
      for (const conflict of conflicts) observer({ kind: 'conflict', conflict });
      this.#want(name, forwardings, receivedMs);
      return again;
    } catch (error) {
      observer({ kind: 'unresolvable', service: name, error: error as Error });
      return [];
    }
  }

  #resolve(service: Service): ClaimResult {
    const { state, context } = this.#options;
    return this.#claims.claim(service, resolve(service, state.slices(service.key), context()));
  }

  #want(name: string, forwardings: readonly Forwarding[], receivedMs: number): void {
    const { clock, families, state } = this.#options;
    const resolvedMs = clock.now();
    const triggers = state.takeTriggerTimes(name);
    for (const sync of families) {
      const known = this.#keys[sync.family];
      const before = known.get(name) ?? noKeys;
      const own = forwardings.filter(({ family }) => family === sync.family);
      if (own.length === 0 && before.length === 0) continue;
      const now = own.map(({ servicePort }) => forwardingKey(servicePort));
      // A Service's trigger times are observed once, with the first of its ports.
      let triggerTimesMs = timesOf(triggers, sync.family);
      for (let i = 0; i < now.length; i += 1) {
        sync.want(now[i]!, own[i], { receivedMs, resolvedMs, triggerTimesMs });
        triggerTimesMs = noTimes;
      }
      for (const key of before) {
        if (now.includes(key)) continue;
        sync.want(key, undefined, { receivedMs, resolvedMs, triggerTimesMs });
        triggerTimesMs = noTimes;
      }
      if (now.length > 0) known.set(name, now);
      else known.delete(name);
    }
    this.#options.resolved?.(name);
  }
}

function timesOf(triggers: readonly TriggerTime[], family: Family): readonly number[] {
  if (triggers.length === 0) return noTimes;
  return triggers.filter((t) => t.family === family).map((t) => t.timeMs);
}

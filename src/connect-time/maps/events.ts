/** Events of connect-time translation, from which logs, metrics and Events are made. */
import type { Family } from '../../net/address.ts';
import type { FamilyEvent, FilterEvent, SyncEvent } from '../../sync/events.ts';
import type { LeftToRules } from './facts.ts';

export type ConnectTimeEvent = { readonly family: Family } & (
  | ({
      /** A Service has no room in the maps, or has it again. */
      readonly kind: 'left-to-rules';
    } & LeftToRules)
  /** Of the sync that keeps the maps. */
  | { readonly kind: 'connect-time'; readonly of: FamilyEvent }
  | {
      /**
       * The lease of the programs was not renewed in time: `leftMs` later they leave all connections
       * to the rules.
       */
      readonly kind: 'lease-late';
      readonly reason: string;
      readonly leftMs: number;
    }
  /** It has run out, and is renewed when the maps have been compared. */
  | { readonly kind: 'lease-ended' }
);

/** What the agent reports of its rules and of its maps. */
export type AgentEvent = SyncEvent | FilterEvent | ConnectTimeEvent;

/** Receives the warnings about the node that are Events. */
export interface ConnectTimeEvents {
  /**
   * - `ConnectTimeUnavailable`: the configuration asks for it, and the kernel does not support it.
   * - `ConnectTimeStale`: programs of an earlier process translate to endpoints that may have gone.
   * - `ExcludedPodsUnknown`: the configuration excludes pods, and pods cannot be watched.
   */
  aboutNode(
    reason: 'ConnectTimeUnavailable' | 'ConnectTimeStale' | 'ExcludedPodsUnknown',
    note: string,
  ): void;
}

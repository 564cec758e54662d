import type { Environment } from '../modes/mode.ts';
import type { Planner } from '../modes/planner.ts';
import type { Forwarding } from '../state/types.ts';
import type { Cause } from './cause.ts';

/** Those at present: see `Planner.unswept`. */
export type Unswept = () => Planner['unswept'];

/**
 * Follows what one family has in force, for state outside the rules that depends on them: entries
 * of connection tracking, maps of connect time, sockets on loopback addresses.
 */
export interface ForwardingFollower {
  /** Until the next `settled`, the kernel may hold changes that `changed` has not reported yet. */
  moving?(): void;
  /** A change is in force now (see `AppliedChange`). */
  changed?(
    previous: Forwarding | undefined,
    next: Forwarding | undefined,
    cause: Cause | undefined,
  ): void;
  /**
   * `changed` has reported all that is in force, in this environment. Of Forwardings that `unswept`
   * names, packets may still make connections to endpoints that are gone: who looks for these looks
   * again when it names them no more. `settled` is called then.
   */
  settled?(environment: Environment, unswept: Unswept): void;
}

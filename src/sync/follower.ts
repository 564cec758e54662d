import type { Environment } from '../modes/mode.ts';
import type { Forwarding } from '../state/types.ts';
import type { Cause } from './cause.ts';

/**
 * Keeps in step with what one family has in force: for what depends on the rules, but is no part of
 * them (conntrack entries).
 */
export interface ForwardingFollower {
  /** Until `upToDate` the kernel may hold more than has been told. */
  moving(): void;
  /**
   * This change is in force now: undefined = did not exist, does not exist any more. It may be
   * none: a repair tells of all. `cause` = what came from outside, where that is known.
   */
  changed(
    previous: Forwarding | undefined,
    next: Forwarding | undefined,
    cause: Cause | undefined,
  ): void;
  /** All that the kernel holds has been told, and it accepts node ports at these addresses. */
  upToDate(nodePortAddresses: Environment['nodePortAddresses']): void;
}

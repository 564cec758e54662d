import type { Environment } from '../modes/mode.ts';
import type { Forwarding } from '../state/types.ts';
import type { Cause } from './cause.ts';

/**
 * Is told what one family has in force. For what depends on rules and is no part of them: entries
 * of connection tracking.
 */
export interface ForwardingFollower {
  /** Until the next `upToDate`, the kernel may hold changes that were not told yet. */
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
  /** All that is in force has been told. Node ports are accepted at these addresses. */
  upToDate(nodePortAddresses: Environment['nodePortAddresses']): void;
}

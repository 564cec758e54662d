import type { Environment } from '../modes/mode.ts';
import type { Forwarding } from '../state/types.ts';
import type { Cause } from './cause.ts';

/**
 * Follows what one family has in force, for what depends on rules and is no part of them: entries
 * of connection tracking, maps of connect time, sockets on loopback addresses.
 */
export interface ForwardingFollower {
  /** Until the next `upToDate`, the kernel may hold changes that `changed` has not reported yet. */
  moving(): void;
  /** A change is in force now (see `AppliedChange`). */
  changed(
    previous: Forwarding | undefined,
    next: Forwarding | undefined,
    cause: Cause | undefined,
  ): void;
  /** `changed` has reported all that is in force. Node ports are accepted at these addresses. */
  upToDate(nodePortAddresses: Environment['nodePortAddresses']): void;
}

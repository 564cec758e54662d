import type { Environment } from '../modes/mode.ts';
import type { Forwarding } from '../state/types.ts';

/**
 * Keeps in step with what one family has in force: for what depends on the rules, but is no part of
 * them (conntrack entries).
 */
export interface ForwardingFollower {
  /** Until `upToDate` the kernel may hold more than has been told. */
  moving(): void;
  /** This change is in force now: undefined = did not exist, does not exist any more. */
  changed(previous: Forwarding | undefined, next: Forwarding | undefined): void;
  /** All that the kernel holds has been told, and it accepts node ports at these addresses. */
  upToDate(nodePortAddresses: Environment['nodePortAddresses']): void;
}

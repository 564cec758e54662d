import type { BackoffLimits } from '../time/backoff.ts';

interface AuditSettings {
  /** How often the generation is read. */
  readonly checkMs: number;
  /** Longest time between two comparisons, even if the generation shows no change. */
  readonly fullMs: number;
  /**
   * After a comparison that took t, at least `restFactor * t` passes before the next one: others
   * may commit all the time, and comparing must stay a small part of our work. What is known to
   * have changed rules of ours does not wait for that (see `repairShare`).
   */
  readonly restFactor: number;
}

/** How one family is kept in sync. */
export interface SyncSettings {
  /** Least time between the end of a sync and the next one; 0 = it follows what syncs cost. */
  readonly minSyncPeriodMs: number;
  /** The longest time that it is where it follows what syncs cost; 0 = syncs do not rest. */
  readonly longestRestMs: number;
  readonly batchBytesMax: number;
  /** The event loop is released after this much work. */
  readonly sliceMs: number;
  readonly audit: AuditSettings;
  /** For a Forwarding that the kernel refuses. */
  readonly quarantineBackoff: BackoffLimits;
  /** For reading the kernel again after a failure without a known culprit. */
  readonly recoveryBackoff: BackoffLimits;
}

import type { BackoffLimits } from '../time/backoff.ts';
import type { AuditSettings } from './audit.ts';

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

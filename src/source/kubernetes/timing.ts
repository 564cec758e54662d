/** How long a reflector waits. Only tests need other numbers. */
export interface ReflectorTiming {
  /** A watch that is silent for longer is dead; bookmarks come about once a minute. */
  readonly idleTimeoutMs: number;
  /** A streaming list that brings nothing new for so long is no list. */
  readonly listIdleMs: number;
  /** And none that is not complete after so long. */
  readonly listMaxMs: number;
  /** After a list that came in pages, the next ones are not asked for as streams for so long. */
  readonly pagesFirstMs: number;
  /** The server is asked to end a watch after a random time in this range. */
  readonly watchSecondsMin: number;
  readonly watchSecondsMax: number;
  /** How long before that end the next watch is asked for. */
  readonly overlapMs: number;
  /**
   * The same for a watch when the one before it said nothing, which must end before the idle
   * timeout: that it ends on time is a sign of life, and a proxy that buffers lets go then.
   */
  readonly quietWatchSeconds: number;
  /** The same when the one before it said something only as it ended: there is such a proxy. */
  readonly bufferedWatchSeconds: number;
  /** How often a server whose watches say nothing is asked whether it still knows what we know. */
  readonly probeMs: number;
  /** Which must not hold up the next watch for longer. */
  readonly probeMaxMs: number;
  readonly backoffBaseMs: number;
  readonly backoffMaxMs: number;
  /** The same while the first list is missing: nobody is served meanwhile. */
  readonly backoffFirstMaxMs: number;
  /** Bounds of how often an optional resource that is not there is asked for. */
  readonly absentRetryBaseMs: number;
  readonly absentRetryMaxMs: number;
  /** Objects in one page of a list. */
  readonly pageSize: number;
  /** A larger object is not read. */
  readonly objectBytesMax: number;
}

export const defaultTiming: ReflectorTiming = {
  idleTimeoutMs: 90_000,
  listIdleMs: 15_000,
  listMaxMs: 120_000,
  pagesFirstMs: 600_000,
  watchSecondsMin: 300,
  watchSecondsMax: 600,
  overlapMs: 120_000,
  quietWatchSeconds: 60,
  bufferedWatchSeconds: 10,
  probeMs: 300_000,
  probeMaxMs: 5000,
  backoffBaseMs: 250,
  backoffMaxMs: 30_000,
  backoffFirstMaxMs: 10_000,
  absentRetryBaseMs: 5000,
  absentRetryMaxMs: 600_000,
  pageSize: 500,
  objectBytesMax: 16 * 1024 * 1024,
};

/** How long a reflector waits. Only tests need other numbers. */
export interface ReflectorTiming {
  /** A watch that is silent for longer is dead; bookmarks come about once a minute. */
  readonly idleTimeoutMs: number;
  /** A streaming list fails when it brings nothing new for so long, */
  readonly listIdleMs: number;
  /** or when it is not complete after so long. */
  readonly listMaxMs: number;
  /** After a list that came in pages, the next ones are not asked for as streams for so long. */
  readonly pagesFirstMs: number;
  /** The server is asked to end a watch after a random time in this range. */
  readonly watchSecondsMin: number;
  readonly watchSecondsMax: number;
  /** How long before that end the next watch is asked for. */
  readonly overlapMs: number;
  /**
   * The same for a watch after a silent one. It must end before the idle timeout: that it ends on
   * time shows that the server lives, and a proxy that buffers then sends what it has.
   */
  readonly quietWatchSeconds: number;
  /** The same after a watch that brought something only when it ended: a proxy buffers. */
  readonly bufferedWatchSeconds: number;
  /** How often a server with silent watches is asked whether its data were set back, */
  readonly probeMs: number;
  /** and how long the next watch waits for the answer. */
  readonly probeMaxMs: number;
  readonly backoffBaseMs: number;
  readonly backoffMaxMs: number;
  /** The same while the first list is missing: nobody is served meanwhile. */
  readonly backoffFirstMaxMs: number;
  /** Bounds of the time between requests for an optional resource that is not available. */
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

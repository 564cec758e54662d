/** Timeouts and intervals of a reflector. Only tests use other values. */
export interface ReflectorTiming {
  /** A watch that is silent for longer is dead; bookmarks arrive about once a minute. */
  readonly idleTimeoutMs: number;
  /** A streaming list fails if it delivers nothing new for this time. */
  readonly listIdleMs: number;
  /** A streaming list fails if it is not complete after this time. */
  readonly listMaxMs: number;
  /** The same of a paged list. After some minutes the server forgets where the next page begins. */
  readonly pagedListMaxMs: number;
  /** After a paged list, the next ones are not tried as streams for this time. */
  readonly pagesFirstMs: number;
  /** The server is asked to end a watch after a random time in this range. */
  readonly watchSecondsMin: number;
  readonly watchSecondsMax: number;
  /** How long before that end the next watch is opened. */
  readonly overlapMs: number;
  /**
   * The same range for a watch after a silent one. It must end before the idle timeout: its end on
   * time shows that the server is alive, and a buffering proxy then sends what it has.
   */
  readonly quietWatchSeconds: number;
  /** The same range after a watch that delivered something only when it ended: a proxy buffers. */
  readonly bufferedWatchSeconds: number;
  /** How often a server with silent watches is checked for a lower resourceVersion. */
  readonly probeMs: number;
  /** How long the next watch waits for that check. */
  readonly probeMaxMs: number;
  /** After a random time in this range, objects are compared with the server again. */
  readonly compareMinMs: number;
  readonly compareMaxMs: number;
  /** The longest part of the time that this may take: a busy server is compared less often. */
  readonly compareShareMax: number;
  readonly backoffBaseMs: number;
  readonly backoffMaxMs: number;
  /** The same while the first list is missing: no Service is served in that time. */
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
  pagedListMaxMs: 600_000,
  pagesFirstMs: 600_000,
  watchSecondsMin: 300,
  watchSecondsMax: 600,
  overlapMs: 120_000,
  quietWatchSeconds: 60,
  bufferedWatchSeconds: 10,
  probeMs: 300_000,
  probeMaxMs: 5000,
  compareMinMs: 1_200_000,
  compareMaxMs: 2_400_000,
  compareShareMax: 1 / 100,
  backoffBaseMs: 250,
  backoffMaxMs: 30_000,
  backoffFirstMaxMs: 10_000,
  absentRetryBaseMs: 5000,
  absentRetryMaxMs: 600_000,
  pageSize: 500,
  objectBytesMax: 16 * 1024 * 1024,
};

/** Timeouts and intervals of a reflector. Only tests use other values. */
export const defaultTiming = {
  /** A watch that is silent for longer is dead; bookmarks arrive about once a minute. */
  idleTimeoutMs: 90_000,
  /** A streaming list fails if it delivers nothing new for this time. */
  listIdleMs: 15_000,
  /** A streaming list fails if it is not complete after this time. */
  listMaxMs: 120_000,
  /** The same of a paged list. After some minutes the server forgets where the next page begins. */
  pagedListMaxMs: 600_000,
  /** After a paged list, the next ones are not tried as streams for this time. */
  pagesFirstMs: 600_000,
  /** The server is asked to end a watch after a random time in this range. */
  watchSecondsMin: 300,
  watchSecondsMax: 600,
  /** How long before that end the next watch is opened. */
  overlapMs: 120_000,
  /**
   * The same range for a watch after a silent one. It must end before the idle timeout: its end on
   * time shows that the server is alive, and a buffering proxy then sends what it has.
   */
  quietWatchSeconds: 60,
  /** The same range after a watch that delivered something only when it ended: a proxy buffers. */
  bufferedWatchSeconds: 10,
  /** How often a server with silent watches is checked for a lower resourceVersion. */
  probeMs: 300_000,
  /** How long the next watch waits for that check. */
  probeMaxMs: 5000,
  /** After a random time in this range, objects are compared with the server again. */
  compareMinMs: 1_200_000,
  compareMaxMs: 2_400_000,
  /** The longest part of the time that this may take: a busy server is compared less often. */
  compareShareMax: 1 / 100,
  backoffBaseMs: 250,
  backoffMaxMs: 30_000,
  /** The same while the first list is missing: no Service is served in that time. */
  backoffFirstMaxMs: 10_000,
  /** Bounds of the time between requests for an optional resource that is not available. */
  absentRetryBaseMs: 5000,
  absentRetryMaxMs: 600_000,
  /** Objects in one page of a list. */
  pageSize: 500,
  /** A larger object is not read. */
  objectBytesMax: 16 * 1024 * 1024,
};

export type ReflectorTiming = Readonly<typeof defaultTiming>;

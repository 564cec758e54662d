/** How patient a reflector is. Tests are in a hurry; nobody else should need other numbers. */
export interface ReflectorTiming {
  /** A watch that is silent for longer is dead; bookmarks come about once a minute. */
  readonly idleTimeoutMs: number;
  /** The server is asked to end a watch after a random time in this range. */
  readonly watchSecondsMin: number;
  readonly watchSecondsMax: number;
  /** How long before that end the next watch is asked for. */
  readonly overlapMs: number;
  readonly backoffBaseMs: number;
  readonly backoffMaxMs: number;
  /** How often an optional resource that is not there is asked for. */
  readonly absentRetryMs: number;
  /** Objects in one page of a list. */
  readonly pageSize: number;
  /** A larger object is not read. */
  readonly objectBytesMax: number;
}

export const defaultTiming: ReflectorTiming = {
  idleTimeoutMs: 90_000,
  watchSecondsMin: 300,
  watchSecondsMax: 600,
  overlapMs: 120_000,
  backoffBaseMs: 250,
  backoffMaxMs: 30_000,
  absentRetryMs: 600_000,
  pageSize: 500,
  objectBytesMax: 16 * 1024 * 1024,
};

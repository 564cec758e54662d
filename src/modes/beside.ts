/** What others need to know of what translates connections beside the rules of a mode. */

/** A Service for which there is no room beside the rules. */
export interface LeftToRules {
  /** `namespace/name`. */
  readonly service: string;
  /** False: there is room again. */
  readonly isLeft: boolean;
  /** What it would have in the maps. */
  readonly frontends: number;
  readonly endpoints: number;
}

/** What a planner does because of maps beside the rules, where there are any. */
export interface BesideRules {
  /** `take` has more to give, though nothing has changed. */
  readonly unfinished?: boolean;
  /** Services that are left to the rules, or no longer, since the last call. */
  takeLeft?(): readonly LeftToRules[];
}

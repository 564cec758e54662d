/** What others need to know of what translates connections beside the rules of a mode. */

import type { Forwarding } from '../state/types.ts';

/** Elements of maps. */
interface Elements {
  readonly frontends: number;
  readonly endpoints: number;
}

/** How full the maps of one family are. */
export interface BesideUse {
  readonly used: Elements;
  /** The most that is used at present. */
  readonly limit: Elements;
  /** Services that are left to the rules, for want of room or of a pool id of their own. */
  readonly left: number;
}

/** The pods of this node whose connections are left to the rules because of their labels. */
export interface Exclusion {
  readonly selector: string;
  /** How many it chooses; undefined = that is not known yet, or cannot be. */
  readonly pods: number | undefined;
  /** How many of them have a cgroup, and are left to the rules. */
  readonly excluded: number;
  /** Why they are not known. */
  readonly failure: string | undefined;
}

/** A Service that is left to the rules alone, or no longer. */
export interface LeftToRules extends Elements {
  /** `namespace/name`. */
  readonly service: string;
  /** False: there is room again. */
  readonly isLeft: boolean;
  /** It is left because a pool of it would have the id of another pool. */
  readonly isContested: boolean;
}

/** What a planner does because of maps beside the rules, where there are any. */
export interface BesideRules {
  /** `take` has more to give, though nothing has changed. */
  readonly unfinished?: boolean;
  /** Services that are left to the rules, or no longer, since the last call. */
  takeLeft?(): readonly LeftToRules[];
  /** Undefined: there are no maps. */
  readonly use?: BesideUse | undefined;
  /** Why rules translate connections to some frontend of it; undefined = they need not. */
  reasonOf?(forwarding: Forwarding): string | undefined;
}

/** Facts about connect-time translation for answers, metrics and logs. */
import type { Forwarding } from '../../state/types.ts';
import type { Room } from './placement.ts';

/** How full the maps of one family are. */
export interface MapUse {
  readonly used: Room;
  /** The most that may be used at present. */
  readonly limit: Room;
  /** Services that packet rules handle alone, because they have no room. */
  readonly left: number;
}

/** The pods of this node whose connections only packet rules handle, because of their labels. */
export interface Exclusion {
  readonly selector: string;
  /** How many pods it selects; undefined if that is not known yet, or cannot be. */
  readonly pods: number | undefined;
  /** How many of them have a cgroup, and are excluded. */
  readonly excluded: number;
  /** Why they are not known. */
  readonly failure: string | undefined;
}

/** A Service that was left to the packet rules, or was added to the maps again. */
export interface LeftToRules extends Room {
  /** `namespace/name`. */
  readonly service: string;
  /** False: it is in the maps again. */
  readonly isLeft: boolean;
}

/** The maps of one family, for answers and metrics. */
export interface MapView {
  readonly use: MapUse;
  /** Why only packet rules handle some frontend of it; undefined: the maps have all of them. */
  reasonOf(forwarding: Forwarding): string | undefined;
}

/** Programs of earlier processes. */
export interface StaleState {
  /** The number of attached programs. */
  readonly attached: number;
  /** Why they could not be removed. */
  readonly failure?: string;
  /** Why the number is not known. */
  readonly unknown?: string;
  /** The number of attached programs that may be stale, or another agent's. */
  readonly unidentified?: number;
}

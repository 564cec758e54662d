/** Where programs and maps are, and whose connections are translated. */

import { groupCount } from './layout.ts';

/** Only the node's own Fairlead uses it. */
export const connectTimeDirectory = '/sys/fs/bpf/fairlead';

/** Whose connections are translated: of the node's network namespace, or of all. */
export type Reach = 'host' | 'all';

/** How much the maps of one family hold. A pool takes room for whole groups of endpoints. */
export interface Room {
  readonly frontends: number;
  readonly endpoints: number;
}

/**
 * An empty map takes 16 bytes for each element, and one that is there about 100 more for a frontend
 * and 200 for a group of endpoints.
 */
export const standardRoom: Room = { frontends: 2 ** 18, endpoints: 2 ** 20 };

/**
 * Default of `leaseMs`. Longer than a restart or an upgrade takes; for so long connections may go to
 * endpoints of the past when nothing updates the maps any more.
 */
export const standardLeaseMs = 5 * 60_000;

export interface Placement {
  /** A folder of a bpf file system, which has the pins. */
  readonly directory: string;
  /** The folder of the cgroup2 hierarchy that programs are attached to. */
  readonly cgroup: string;
  readonly reach: Reach;
  /** Connections of excluded pods are left to the rules. */
  readonly excludes: boolean;
  readonly room: Room;
  /** What ids of pools are keyed by; kept in the maps, so that the next process has the same. */
  readonly secret: Uint8Array;
  /** How long programs translate after the process has renewed the lease. */
  readonly leaseMs: number;
}

/** What ops and requests ask for. */
export function askedOf({ cgroup, excludes, reach, room }: Placement, counts: boolean) {
  return {
    cgroup,
    all: reach === 'all' ? 1 : 0,
    counts: counts ? 1 : 0,
    excludes: excludes ? 1 : 0,
    frontendsMax: room.frontends,
    endpointsMax: groupCount(room.endpoints),
  } as const;
}

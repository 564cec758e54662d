/** Where programs and maps are, and for which sockets. */

import { groupCount } from './layout.ts';

/** The folder of the pins; only the Fairlead of the node uses it. */
export const connectTimeDirectory = '/sys/fs/bpf/fairlead';

/** The sockets to translate for: those of the node's network namespace, or all. */
export type Reach = 'host' | 'all';

/** A number of elements of the maps of one family. A pool takes room for whole groups. */
export interface Room {
  readonly frontends: number;
  readonly endpoints: number;
}

/**
 * An empty map takes 16 bytes for each possible element. An existing element takes about 100 bytes
 * more for a frontend, and 200 for a group of endpoints.
 */
export const standardRoom: Room = { frontends: 2 ** 18, endpoints: 2 ** 20 };

/**
 * Default of `leaseMs`. A restart or an upgrade takes less. When no process updates the maps any
 * longer, connections may go to removed endpoints for this time.
 */
export const standardLeaseMs = 5 * 60_000;

export interface Placement {
  /** The folder of the pins, in a bpf file system. */
  readonly directory: string;
  /** The folder of the cgroup2 hierarchy that programs are attached to. */
  readonly cgroup: string;
  readonly reach: Reach;
  /** Rules handle connections of excluded pods. */
  readonly excludes: boolean;
  readonly room: Room;
  /** The key of pool ids. It is kept in the maps, so that the next process uses the same one. */
  readonly secret: Uint8Array;
  /** How long programs translate after the process has renewed the lease. */
  readonly leaseMs: number;
}

/** The fields of ops and requests that describe maps and programs. */
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

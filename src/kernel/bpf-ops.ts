/**
 * The part of the schema (`ops.ts`) that is about programs which translate connections when they
 * are made, and about their maps: bpf(2), linux/bpf.h. `native/bpf` has the programs and knows the
 * maps; both are pinned in `directory`, a folder of a bpf file system. `family`: AF_INET (2) or
 * AF_INET6 (10); each family has separate maps and programs.
 */
import type { Schema } from './records.ts';

const place = { directory: 'string', family: 'u8' } as const;
/** How many elements the maps hold. */
const room = { frontendsMax: 'u32', endpointsMax: 'u32' } as const;
/** Attach type and purpose of each program: see `bpfLinksAdd`. */
const reach = { cgroup: 'string', all: 'u8', counts: 'u8', excludes: 'u8' } as const;
const inMap = { directory: 'string', map: 'string' } as const;

/** Ops, each tried by itself. */
export const bpfOps = {
  /** Makes and pins the maps that are missing. */
  bpfMapsAdd: { code: 192, fields: { ...place, ...room } },
  /** Adds or replaces elements, in their order. `keys` and `values`: one after the other. */
  bpfElementsAdd: { code: 193, fields: { ...inMap, keys: 'bytes', values: 'bytes' } },
  /** Deletes elements in their order, until one is missing (ENOENT). */
  bpfElementsDelete: { code: 194, fields: { ...inMap, keys: 'bytes' } },
  /**
   * Attaches the programs to a folder of the cgroup2 hierarchy, and to all below it. A link that is
   * there gets the program of this version in one step. `all`: 1 = for sockets of all network
   * namespaces, 0 = of ours. `counts`: 1 = connections are counted. `excludes`: 1 = processes in
   * cgroups of the map `excluded` are left to the rules.
   */
  bpfLinksAdd: { code: 195, fields: { ...place, ...reach } },
  /** Detaches the programs and removes the maps. Missing ones are not a failure. */
  bpfRemove: { code: 196, fields: place },
  /** Detaches a link, by its id, if it still has this program. A missing one is not a failure. */
  bpfDetach: { code: 197, fields: { link: 'u32', program: 'u32' } },
  /**
   * Lets the programs of a family translate for this time from now, suspend included; after that
   * they leave all connections to the rules. `onlyValid`: 1 = ETIME if that time is over.
   */
  bpfLeaseExtend: { code: 198, fields: { ...place, milliseconds: 'u32', onlyValid: 'u8' } },
} as const satisfies Schema;

/** A buffer holds exactly one. */
export const bpfRequests = {
  /** What is there, compared with what `bpfMapsAdd` and `bpfLinksAdd` would make. */
  bpfStateGet: { code: 200, fields: { ...place, ...room, ...reach } },
  /** ENOENT when there is no such map. */
  bpfElementsDump: { code: 201, fields: inMap },
  /**
   * Loads the programs, and leaves nothing behind. The errno and the text show what the kernel
   * lacks: EMEDIUMTYPE if `directory` would not be in a bpf file system or `cgroup` is not a folder
   * of cgroup2.
   */
  bpfProbe: { code: 202, fields: { ...place, ...room, ...reach } },
  /**
   * Our programs that are attached, of any version, for our network namespace: it needs no mount,
   * but CAP_SYS_ADMIN. Without that, all programs that run for processes in the folder `cgroup` of
   * cgroup2, which needs CAP_NET_ADMIN; empty: there is no such folder. EPERM: neither is allowed.
   */
  bpfAttachedGet: { code: 203, fields: { directory: 'string', cgroup: 'string' } },
  /**
   * How many elements the map has. The kernel does not count them, so all are read, at about 0.2 µs
   * of CPU time each. ENOENT when there is no such map.
   */
  bpfElementsCount: { code: 204, fields: inMap },
} as const satisfies Schema;

/** Answers to `bpfRequests`, before `dumped`. */
export const bpfReplies = {
  /** Each is one of `BPFState`. */
  bpfState: { code: 208, fields: { maps: 'u8', links: 'u8' } },
  bpfElements: { code: 209, fields: { keys: 'bytes', values: 'bytes' } },
  bpfCount: { code: 211, fields: { elements: 'u32' } },
  /**
   * `link`, `program`: ids. Link 0: neither it nor `name` is known, and the program may be another's.
   * `attachType`: enum bpf_attach_type. `isPinned`: its link has one of our pins in the folder.
   */
  bpfAttached: {
    code: 210,
    fields: { link: 'u32', program: 'u32', name: 'string', attachType: 'u32', isPinned: 'u8' },
  },
} as const satisfies Schema;

/** Of `bpfState`. `incomplete`: some are missing, and the others are right. */
export const BPFState = { absent: 0, wrong: 1, right: 2, incomplete: 3 } as const;

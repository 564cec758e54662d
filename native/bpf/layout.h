// Keys and values of the maps, for programs (C) and for the addon. src/connect-time/maps/layout.ts
// writes and reads them.
#ifndef FAIRLEAD_BPF_LAYOUT_H_
#define FAIRLEAD_BPF_LAYOUT_H_

#include <linux/types.h>

/** In network order. IPv4 addresses have the form ::ffff:10.96.0.1. */
struct address {
  __u32 words[4];
};

struct endpoint {
  struct address address;
  /** Network order. */
  __u16 port;
  __u16 unused;
};

struct settings {
  /** The SO_NETNS_COOKIE of the node's network namespace. */
  __u64 node;
  /** 1: sockets of all network namespaces; 0: only the node's. */
  __u32 all;
  /** The version of the attached programs. */
  __u32 version;
  /** 1: connections are counted. */
  __u32 counts;
  /** 1: connections of processes in excluded cgroups are not translated. */
  __u32 excludes;
};

/**
 * When programs stop translating, in nanoseconds since boot, suspend included (CLOCK_BOOTTIME). The
 * agent that keeps the maps up to date renews it.
 */
struct lease {
  __u64 end;
};

/** The seed of the ids of pools. Programs do not read it. */
struct secret {
  __u8 bytes[16];
};

/** `kind` of a frontend key. */
enum { kAddressAndPort = 0, kNodePort = 1, kAddress = 2 };

/**
 * A node port has no address. An address without a port or protocol accepts node ports, or has a
 * range of ports, but not both.
 */
struct frontend {
  struct address address;
  /** Network order. */
  __u16 port;
  __u8 protocol;
  __u8 kind;
};

/** The id of a pool, unique on the node. */
struct pool_id {
  __u64 words[2];
};

/** The value of a frontend. */
struct pool {
  struct pool_id id;
  /** 0: programs do not translate the frontend; the rules handle it. Or it is a node address. */
  __u32 count;
  union {
    /** For a node address: 1 = only sockets of the node's network namespace. */
    __u32 node_only;
    /** For a range: its first and last port, in host order. The port stays as it is. */
    __u16 ports[2];
  };
};

/** Key of a group: the endpoints of a pool from index `number * kGroupSize` on. */
struct group_key {
  struct pool_id pool;
  __u32 number;
  __u32 unused;
};

/** Several endpoints in one element, because each element costs the kernel memory. */
enum { kGroupSize = 4 };

struct group {
  /** Port 0 = unused. */
  struct endpoint endpoints[kGroupSize];
};

/**
 * An excluded cgroup, with those below it. The value is unused. `kAllExcluded` is not a cgroup: it
 * exists when all cgroups to be excluded are in the map.
 */
struct excluded {
  __u64 cgroup;
};
enum { kAllExcluded = 0 };

/** Key of a counter of connections. One without an endpoint sums up removed endpoints. */
struct counted {
  struct frontend frontend;
  struct endpoint endpoint;
};

/** The address that a socket asked for, and the endpoint that it got. */
struct peer {
  struct endpoint service;
  struct endpoint endpoint;
};

#endif  // FAIRLEAD_BPF_LAYOUT_H_

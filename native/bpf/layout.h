// Keys and values of the maps, for programs (C) and for the addon. src/modes/connect-time/layout.ts
// writes and reads them.
#ifndef FAIRLEAD_BPF_LAYOUT_H_
#define FAIRLEAD_BPF_LAYOUT_H_

#include <linux/types.h>

/** Network order. IPv4 addresses have the form ::ffff:10.96.0.1. */
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
  /** The network namespace of the node, as SO_NETNS_COOKIE names it. */
  __u64 node;
  /** 1: sockets of all network namespaces; 0: of the node's. */
  __u32 all;
  /** Of the programs that are attached. */
  __u32 version;
  /** 1: connections are counted. */
  __u32 counts;
  /** 1: processes in excluded cgroups are left to the rules. */
  __u32 excludes;
};

/**
 * Until when programs translate, in nanoseconds since boot, time asleep included (CLOCK_BOOTTIME).
 * The process that keeps the maps up to date moves it on.
 */
struct lease {
  __u64 end;
};

/** What ids of pools depend on. Programs do not read it. */
struct secret {
  __u8 bytes[16];
};

/** What a frontend key names: `kind`. */
enum { kAddressAndPort = 0, kNodePort = 1, kNodeAddress = 2 };

/** A node port has no address, and an address that accepts node ports no port and no protocol. */
struct frontend {
  struct address address;
  /** Network order. */
  __u16 port;
  __u8 protocol;
  __u8 kind;
};

/** Bytes that no other pool of the node has. */
struct pool_id {
  __u64 words[2];
};

/** What a frontend leads to. */
struct pool {
  struct pool_id id;
  /** 0: the frontend is left to the rules. */
  __u32 count;
  /** Of a node address: 1 = only for sockets of the node's network namespace. */
  __u32 node_only;
};

/** Of a group: it holds the endpoints of a pool from index `number * kGroupSize` on. */
struct group_key {
  struct pool_id pool;
  __u32 number;
  __u32 unused;
};

/** Several endpoints are one element, because elements are what costs the kernel. */
enum { kGroupSize = 4 };

struct group {
  /** Those without a port are none. */
  struct endpoint endpoints[kGroupSize];
};

/**
 * An excluded cgroup: of all processes in it, and in those below it. The value says nothing.
 * `kAllExcluded` is no cgroup: it is there when all that are to be excluded are.
 */
struct excluded {
  __u64 cgroup;
};
enum { kAllExcluded = 0 };

/** What connections are counted by. A count without an endpoint is of endpoints that are gone. */
struct counted {
  struct frontend frontend;
  struct endpoint endpoint;
};

/** What a socket asked for, and what it got. */
struct peer {
  struct endpoint service;
  struct endpoint endpoint;
};

#endif  // FAIRLEAD_BPF_LAYOUT_H_

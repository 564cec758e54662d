/**
 * The part of the schema (`ops.ts`) that is about IPVS: generic netlink family `IPVS`,
 * linux/ip_vs.h. Addresses are in network order, ports and all other numbers in host order.
 */
import type { Schema } from './records.ts';

/** What identifies a virtual service, of those that are not found by a firewall mark. */
const virtualServiceKey = {
  /** AF_INET (2) or AF_INET6 (10), the same numbers as NFPROTO. */
  family: 'u8',
  /** IPPROTO_TCP, _UDP or _SCTP. */
  protocol: 'u8',
  /** 4 bytes (IPv4) or 16 (IPv6). */
  address: 'bytes',
  /** 0: every port without a separate service; only useful with persistence. */
  port: 'u16',
} as const;

const virtualServiceSettings = {
  /** Name of the scheduler, `rr`: the kernel loads the module `ip_vs_rr` when it lacks it. */
  scheduler: 'string',
  /** Bits of `IP_VS_SVC_F`, without HASHED, which is the kernel's own. */
  flags: 'u32',
  /** How long a client is remembered (IPVS_SVC_ATTR_TIMEOUT); counts with PERSISTENT only. */
  timeoutSeconds: 'u32',
  /**
   * Prefix length that persistence applies to client addresses (IPVS_SVC_ATTR_NETMASK). Clients
   * with the same prefix share an endpoint. 32 for IPv4 and 128 for IPv6 separate all clients. IPv6
   * needs at least 1 (EINVAL).
   */
  prefixLength: 'u8',
} as const;

const destinationKey = {
  ...virtualServiceKey,
  /** The real server. Of another family than the service only with IP_VS_CONN_F.TUNNEL. */
  destination: 'bytes',
  destinationPort: 'u16',
} as const;

const destinationSettings = {
  /** One of `IP_VS_CONN_F`. */
  forwarding: 'u32',
  /** Up to 2^31 - 1 (ERANGE); 0 = no new connections. */
  weight: 'u32',
  /** No new connections above `upperThreshold` until there are fewer than `lowerThreshold`; 0, 0 =
   * no limit. ERANGE when the lower one is higher. */
  upperThreshold: 'u32',
  lowerThreshold: 'u32',
} as const;

/**
 * Ops that change IPVS, each by itself: there are no transactions, and one that is refused does not
 * keep those after it from being tried. Errors, in addition to those above:
 * - of a virtual service: EEXIST (Add), ESRCH (Set, Delete, and every op on its destinations),
 *   ENOENT for a scheduler that the kernel does not have;
 * - of a destination: EEXIST (Add), ENOENT (Set, Delete), EINVAL for an address that is neither
 *   unicast nor local; for IPv4 that is every address while the namespace's `lo` is down;
 * - EPROTONOSUPPORT, for no op in particular, when the kernel has no IPVS and cannot load it.
 */
export const ipvsOps = {
  virtualServiceAdd: { code: 32, fields: { ...virtualServiceKey, ...virtualServiceSettings } },
  /** Replaces all settings, keeps destinations and connections (IPVS_CMD_SET_SERVICE). */
  virtualServiceSet: { code: 33, fields: { ...virtualServiceKey, ...virtualServiceSettings } },
  /** Deletes its destinations too; their connections end at their next packet. */
  virtualServiceDelete: { code: 34, fields: virtualServiceKey },
  destinationAdd: { code: 35, fields: { ...destinationKey, ...destinationSettings } },
  /** Replaces all settings (IPVS_CMD_SET_DEST). */
  destinationSet: { code: 36, fields: { ...destinationKey, ...destinationSettings } },
  /** Its connections end at their next packet, or linger: sysctl expire_nodest_conn. */
  destinationDelete: { code: 37, fields: destinationKey },
  /** Timeouts of connections, of the whole namespace (IPVS_CMD_SET_CONFIG); 0 = as it is. */
  ipvsTimeoutsSet: {
    code: 38,
    fields: { tcpSeconds: 'u32', tcpFinSeconds: 'u32', udpSeconds: 'u32' },
  },
} as const satisfies Schema;

/**
 * Requests that read IPVS. A buffer holds exactly one. The kernel does not report changes during a
 * dump: objects that are added or deleted during the dump may be missing or appear twice.
 * EPROTONOSUPPORT if the kernel has no IPVS.
 */
export const ipvsRequests = {
  /** The virtual services of a family; 0 = both. */
  virtualServicesDump: { code: 88, fields: { family: 'u8' } },
  /**
   * The destinations of one virtual service; none when there is no such service. With an empty
   * `address` those of all services of the family (0 = both); then `protocol` and `port` do not
   * count, and services that are found by a firewall mark are left out.
   */
  destinationsDump: { code: 89, fields: virtualServiceKey },
  /** The timeouts that `ipvsTimeoutsSet` sets. */
  ipvsTimeoutsGet: { code: 90, fields: {} },
  /** IPVS_CMD_GET_INFO; the cheapest way to ask whether there is IPVS. */
  ipvsInfoGet: { code: 91, fields: {} },
} as const satisfies Schema;

/**
 * IPVS_*_ATTR_STATS64: totals since the object was created or its counters were zeroed. The kernel
 * updates them every two seconds (ip_vs_est.c).
 */
const statistics = {
  connections: 'u64',
  inPackets: 'u64',
  outPackets: 'u64',
  inBytes: 'u64',
  outBytes: 'u64',
} as const;

/** Answers to `ipvsRequests`, before `dumped`. */
export const ipvsReplies = {
  /**
   * `flags` are without HASHED, so that a service reads as it was written. `prefixLength` is 0xff
   * for an IPv4 mask that is not a prefix. With a `firewallMark` other than 0 the mark identifies the
   * service, `protocol` and `port` are 0 and `address` is empty: none that our ops can make.
   */
  virtualService: {
    code: 152,
    fields: {
      ...virtualServiceKey,
      firewallMark: 'u32',
      ...virtualServiceSettings,
      ...statistics,
    },
  },
  destination: {
    code: 153,
    fields: {
      ...destinationKey,
      ...destinationSettings,
      /** Established ones, for TCP and SCTP. */
      activeConnections: 'u32',
      /** All others, such as those that end, and all of UDP. */
      inactiveConnections: 'u32',
      /** Clients that persistence remembers. */
      persistentConnections: 'u32',
      ...statistics,
    },
  },
  ipvsTimeouts: {
    code: 154,
    fields: { tcpSeconds: 'u32', tcpFinSeconds: 'u32', udpSeconds: 'u32' },
  },
  /** `version`: 0x010201 = 1.2.1. `connectionTableSize`: buckets of the hash table. */
  ipvsInfo: { code: 155, fields: { version: 'u32', connectionTableSize: 'u32' } },
} as const satisfies Schema;

/**
 * IP_VS_SVC_F_*: flags of a virtual service. SCHED1 to SCHED3 belong to the scheduler: for `sh`
 * fallback and port, for `mh` the same (`ip_vs_mh.c`).
 */
export const IP_VS_SVC_F = {
  PERSISTENT: 0x1,
  HASHED: 0x2,
  ONEPACKET: 0x4,
  SCHED1: 0x8,
  SCHED2: 0x10,
  SCHED3: 0x20,
} as const;

/** IP_VS_CONN_F_*: how packets get to a destination. */
export const IP_VS_CONN_F = { MASQ: 0, LOCALNODE: 1, TUNNEL: 2, DROUTE: 3, BYPASS: 4 } as const;

/**
 * The part of the schema (`ops.ts`) that is about links and their addresses: rtnetlink,
 * linux/if_link.h and linux/if_addr.h. Addresses are in network order, numbers in host order.
 */
import type { Schema } from './records.ts';

/** Name of a link, at most 15 bytes (IFNAMSIZ). */
const link = { link: 'string' } as const;

const addresses = {
  /** AF_INET (2) or AF_INET6 (10). */
  family: 'u8',
  /** Empty: `index` counts. A name is resolved when the op is executed. */
  ...link,
  /** Index of the link (ifi_index); counts only when `link` is empty. */
  index: 'u32',
  prefixLength: 'u8',
  /** Addresses of 4 or 16 bytes, one after the other; a failure's `entry` counts them. */
  addresses: 'bytes',
} as const;

/**
 * Ops that change links and addresses, each by itself: there are no transactions, and one that is
 * refused does not keep those after it from being tried. ENODEV: there is no such link.
 */
export const routeOps = {
  /** Adds a link of a type that needs no more than its name, such as `dummy`. One that is there
   * already stays as it is. EOPNOTSUPP when the kernel has no such type. */
  linkAdd: { code: 48, fields: { ...link, type: 'string' } },
  linkDelete: { code: 50, fields: link },
  /** `flags`: bits of `IFA_F`. EEXIST for an address that the link has. */
  addressesAdd: { code: 51, fields: { ...addresses, flags: 'u32' } },
  /** EADDRNOTAVAIL for an address that the link does not have. */
  addressesDelete: { code: 52, fields: addresses },
} as const satisfies Schema;

/** Requests that read links, addresses and neighbours. A buffer holds exactly one. */
export const routeRequests = {
  /** One link; no records if it does not exist. */
  linkGet: { code: 96, fields: link },
  linksDump: { code: 98, fields: {} },
  /**
   * Addresses of a family (0 = both) of a link; no records when there is no such link. With an
   * empty `link` those of all links.
   */
  addressesDump: { code: 97, fields: { family: 'u8', ...link } },
  /** Of both families: those that the kernel asks in vain for a link-layer address. */
  deadNeighboursDump: { code: 99, fields: {} },
} as const satisfies Schema;

/** Answers to `routeRequests`, before `dumped`. */
export const routeReplies = {
  /**
   * `type`: IFLA_INFO_KIND, such as `dummy`; empty for `lo` and most devices of hardware. `flags`:
   * IFF_* (linux/if.h). `master`: index of the bridge or the like that it is a part of; 0 = none.
   * `leaves`: 1 = its other end is in another network namespace (IFLA_LINK_NETNSID).
   */
  link: {
    code: 160,
    fields: {
      ...link,
      index: 'u32',
      type: 'string',
      flags: 'u32',
      master: 'u32',
      leaves: 'u8',
    },
  },
  /**
   * `index` is that of its link. `flags`: bits of `IFA_F`. `scope`: RT_SCOPE_*, 0 = global, 253 =
   * of the link, 254 = of the host.
   */
  address: {
    code: 161,
    fields: {
      family: 'u8',
      index: 'u32',
      address: 'bytes',
      prefixLength: 'u8',
      flags: 'u32',
      scope: 'u8',
    },
  },
  /** `index` is that of its link. */
  deadNeighbour: { code: 162, fields: { index: 'u32', address: 'bytes' } },
} as const satisfies Schema;

/** IFA_F_*: flags of an address (linux/if_addr.h). NODAD: usable immediately (IPv6). */
export const IFA_F = { NODAD: 0x02, PERMANENT: 0x80 } as const;

/** Of the address that IPv6 gives every link that is up (linux/rtnetlink.h). */
export const RT_SCOPE_LINK = 253;

/**
 * The part of the schema (`ops.ts`) that is about the sets of ipset: nfnetlink subsystem
 * NFNL_SUBSYS_IPSET, linux/netfilter/ipset/ip_set.h. We make none; kube-proxy's ipvs mode leaves
 * some behind.
 */
import type { Schema } from './records.ts';

/** Ops that change sets, each by itself. */
export const ipsetOps = {
  /**
   * Succeeds if the set does not exist. EPROTO while rules or other sets refer to it (the kernel
   * replies IPSET_ERR_BUSY, which is not an errno).
   */
  ipsetDestroy: { code: 56, fields: { set: 'string' } },
} as const satisfies Schema;

/**
 * Requests that read sets. A buffer holds exactly one. EINVAL where the kernel has no ipset; asking
 * makes it load the module.
 */
export const ipsetRequests = {
  /** All sets, without their members. */
  ipsetsDump: { code: 112, fields: {} },
  /** The ports of the members of one set; no records when there is no such set. */
  ipsetPortsDump: { code: 113, fields: { set: 'string' } },
} as const satisfies Schema;

/** Answers to `ipsetRequests`, before `dumped`. */
export const ipsetReplies = {
  /** `type`: `hash:ip,port`. `references`: rules and sets that refer to it. */
  ipset: { code: 176, fields: { set: 'string', type: 'string', references: 'u32' } },
  /** Ports in network order, two bytes each, those of some of the members. */
  ipsetPorts: { code: 177, fields: { ports: 'bytes' } },
} as const satisfies Schema;

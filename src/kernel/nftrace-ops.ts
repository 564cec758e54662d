/**
 * The part of the schema (`ops.ts`) that is about traced packets: what nf_tables reports of each rule
 * that a packet meets after `meta nftrace set 1` (NFT_MSG_TRACE to the group NFNLGRP_NFTRACE).
 */
import type { Schema } from './records.ts';

/** Requests about traced packets. A buffer holds exactly one. */
export const nftraceRequests = {
  /**
   * The events that came since the last one of these, in their order. Waits up to `waitMs`, and a
   * second at most, for the first. The kernel keeps events from the first request on. `overrun`: it could not keep all.
   */
  nftraceRead: { code: 121, fields: { waitMs: 'u32' } },
} as const satisfies Schema;

/** Answers to `nftraceRequests`, before `dumped`. */
export const nftraceReplies = {
  /**
   * `id` is the same for all events of a packet, and may come again for a later one. `type`:
   * NFT_TRACETYPE_*. `family` is that of the table, `packetFamily` that of the packet. `rule` is a
   * handle, 0 = no rule. `verdict` and `target` (the chain that is jumped to) are those of a rule;
   * `policy` is that of a base chain (NF_ACCEPT, NF_DROP) where it decided, else 0xffffffff. The
   * kernel gives the headers, cut off, and the interfaces (indexes, 0 = none) with the first event
   * of each base chain.
   */
  nftraceEvent: {
    code: 192,
    fields: {
      id: 'u32',
      type: 'u32',
      family: 'u8',
      packetFamily: 'u8',
      table: 'string',
      chain: 'string',
      rule: 'u64',
      verdict: 'i32',
      target: 'string',
      policy: 'u32',
      mark: 'u32',
      inputInterface: 'u32',
      outputInterface: 'u32',
      networkHeader: 'bytes',
      transportHeader: 'bytes',
    },
  },
} as const satisfies Schema;

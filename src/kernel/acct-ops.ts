/**
 * The part of the schema (`ops.ts`) that is about named counters: nfnetlink subsystem
 * NFNL_SUBSYS_ACCT, linux/netfilter/nfnetlink_acct.h. Rules of iptables count in them (`-m nfacct`).
 */
import type { Schema } from './records.ts';

const named = { name: 'string' } as const;

/** Ops that change counters, each by itself. Names have at most 31 bytes. */
export const acctOps = {
  /** EBUSY if an object of this name exists; that object is not changed. */
  acctAdd: { code: 62, fields: named },
  /** ENOENT if the object does not exist; EBUSY while rules refer to it. */
  acctDelete: { code: 63, fields: named },
} as const satisfies Schema;

/** Requests that read counters. A buffer holds exactly one. EINVAL where the kernel has none. */
export const acctRequests = {
  acctsDump: { code: 120, fields: {} },
} as const satisfies Schema;

/** Answers to `acctRequests`, before `dumped`. */
export const acctReplies = {
  /** `references`: rules that count in it. */
  acct: {
    code: 184,
    fields: { ...named, packets: 'u64', bytes: 'u64', references: 'u32' },
  },
} as const satisfies Schema;

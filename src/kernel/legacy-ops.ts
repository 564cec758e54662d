/**
 * The part of the schema (`ops.ts`) that is about the older ip_tables and ip6_tables, which
 * iptables-legacy writes: to find out whether they are in use, and to remove what kube-proxy has
 * left there.
 */
import type { Schema } from './records.ts';

const inTable = { family: 'u8', table: 'string' } as const;
const inChain = { ...inTable, chain: 'string' } as const;

/**
 * Ops that remove. Consecutive ones for one table replace it in one step; everything else in it
 * stays, with its counters. Missing chains and rules are not a failure. EAGAIN while another
 * program holds the lock. EBUSY while a rule that stays refers to a chain that is to be deleted.
 */
export const legacyOps = {
  /** Every rule of the chain that jumps or goes to `target`. */
  legacyJumpsDelete: { code: 60, fields: { ...inChain, target: 'string' } },
  /** A user-defined chain with its rules. */
  legacyChainDelete: { code: 61, fields: inChain },
} as const satisfies Schema;

/** A buffer holds exactly one. */
export const legacyRequests = {
  /** The tables that are there; family: AF_INET (2) or AF_INET6 (10). Makes none. */
  legacyTablesDump: { code: 104, fields: { family: 'u8' } },
} as const satisfies Schema;

/** Answers to `legacyRequests`, in addition to `dumped`. */
export const legacyReplies = {
  /** `rules`: without the policies of built-in chains. Its chains follow. */
  legacyTable: { code: 168, fields: { ...inTable, rules: 'u32' } },
  /**
   * `hook`: NF_INET_*, 0xffffffff for a user-defined chain. `policy`: NF_ACCEPT or NF_DROP, of a
   * built-in chain. The chain's jumps follow.
   */
  legacyChain: { code: 169, fields: { ...inChain, hook: 'u32', policy: 'u32' } },
  /** A rule of the chain before it that jumps or goes to `target`. */
  legacyJump: { code: 170, fields: { target: 'string' } },
} as const satisfies Schema;

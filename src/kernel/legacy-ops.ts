/**
 * The part of the schema (`ops.ts`) that is about the older ip_tables and ip6_tables, which
 * iptables-legacy writes: only to find out whether anybody uses them.
 */
import type { Schema } from './records.ts';

/** A buffer holds exactly one. */
export const legacyRequests = {
  /** The tables that are there; family: AF_INET (2) or AF_INET6 (10). Makes none. */
  legacyTablesDump: { code: 104, fields: { family: 'u8' } },
} as const satisfies Schema;

/** Answers to `legacyRequests`, besides `dumped`. */
export const legacyReplies = {
  /** `rules`: without the policies of built-in chains. Its chains follow. */
  legacyTable: { code: 168, fields: { family: 'u8', table: 'string', rules: 'u32' } },
  /** A chain that somebody made. */
  legacyChain: { code: 169, fields: { family: 'u8', table: 'string', chain: 'string' } },
} as const satisfies Schema;

/** Schema of requests about connection tracking, and of what answers them. */
import type { Schema } from './records.ts';

/** Requests about entries of connection tracking. A buffer holds exactly one. */
export const conntrackRequests = {
  /**
   * The entries of one family, protocol (IPPROTO_TCP, _UDP or _SCTP) and zone (0 = the default one)
   * whose status (IPS_*) is `status` in the bits of `statusMask`. `destination` (original address,
   * network order) and `port` (original destination, host order) narrow it; empty, 0 = any.
   */
  conntrackDump: {
    code: 80,
    fields: {
      family: 'u8',
      protocol: 'u8',
      zone: 'u16',
      status: 'u32',
      statusMask: 'u32',
      destination: 'bytes',
      port: 'u16',
    },
  },
  /** Deletes the entries, each by itself; the layout is that of `conntrackEntries`. */
  conntrackDelete: { code: 81, fields: { family: 'u8', entries: 'bytes' } },
} as const satisfies Schema;

/** Requests of the interface `Kernel` about ended connections. A buffer holds exactly one. */
export const bytesRequests = {
  /**
   * What has ended since the first one of these or the last, or ends within `waitMs`, up to 1 s.
   * - `timers`: u32 seconds for which an entry outlives its last packet, by TCP state
   *   (TCP_CONNTRACK_*), then of UDP: without and with IPS_ASSURED;
   * - `bounds`: u32 ms, growing, between which durations are counted;
   * - `flows`: the most `flowOfEnded`, of failed connections only if `failed` is 1.
   */
  bytesRead: {
    code: 122,
    fields: { waitMs: 'u32', timers: 'bytes', bounds: 'bytes', flows: 'u32', failed: 'u8' },
  },
} as const satisfies Schema;

const addresses = { frontend: 'bytes', endpoint: 'bytes' } as const;

/**
 * By number. TCP is answered when its handshake is complete, another protocol by the first packet;
 * a reset without that refuses it.
 */
export const flowOutcomes = ['answered', 'reset', 'no answer'] as const;

/** Answers to `bytesRequests`, before `dumped`. */
export const bytesReplies = {
  /**
   * Bytes of all ended connections of the default zone that were translated between these addresses
   * (network order) and port of the frontend (host order). `in`: from clients. `durations`: a u32
   * for the connections up to each bound, and one for those above all; `ms`: their sum. Only those
   * that the kernel timed (`nf_conntrack_timestamp`) have one.
   */
  bytesOfEnded: {
    code: 205,
    fields: {
      ...{ protocol: 'u8', port: 'u16', ...addresses, in: 'u64', out: 'u64' },
      ...{ durations: 'bytes', ms: 'u64' },
    },
  },
  /**
   * Ended connections, to Services or not, that no `bytesOfEnded` has: the kernel had no room for
   * their events, or did not count their bytes; or there were more than 65,536 records. `flows`:
   * those that no `flowOfEnded` has although they were asked for.
   */
  bytesMissed: { code: 206, fields: { connections: 'u64', flows: 'u64' } },
  /** One of them, by chance where there are more. `outcome`: see `flowOutcomes`. */
  flowOfEnded: {
    code: 207,
    fields: {
      ...{ protocol: 'u8', client: 'bytes', clientPort: 'u16', frontend: 'bytes', port: 'u16' },
      ...{ endpoint: 'bytes', endpointPort: 'u16', in: 'u64', out: 'u64', outcome: 'u8' },
      ...{ isTimed: 'u8', ms: 'u64' },
    },
  },
} as const satisfies Schema;

/** Answers to `conntrackRequests`, in addition to `dumped` and `failed`. */
export const conntrackReplies = {
  /**
   * Comes before `dumped`. Entries of 36 bytes (IPv4) or 84 (IPv6), one after the other, each:
   * - original source, original destination, reply source, reply destination, each the address and
   *   the port in network order (6 or 18 bytes);
   * - u8 protocol, u8 TCP state (TCP_CONNTRACK_*), u16 zone, u32 status (IPS_*), u32 id (CTA_ID),
   *   in host order.
   */
  conntrackEntries: { code: 144, fields: { family: 'u8', entries: 'bytes' } },
  /** One u32 in host order for each entry: 0 = deleted, else the errno (ENOENT: gone already). */
  conntrackDeleted: { code: 145, fields: { errors: 'bytes' } },
} as const satisfies Schema;

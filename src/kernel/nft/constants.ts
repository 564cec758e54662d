/** Numbers that linux/netfilter/nf_tables.h and its neighbours define, under the kernel's names. */
import { type Protocol, protocols } from '../../net/protocol.ts';

/** NFPROTO_* */
export const NFPROTO = { IPv4: 2, IPv6: 10 } as const;
/** The family of tables for both. */
export const NFPROTO_INET = 1;

/** NF_INET_* */
export const NF_INET = {
  PRE_ROUTING: 0,
  LOCAL_IN: 1,
  FORWARD: 2,
  LOCAL_OUT: 3,
  POST_ROUTING: 4,
} as const;

/** Verdicts: NF_* and NFT_* (linux/netfilter.h, nf_tables.h). */
export const VERDICT = { drop: 0, accept: 1, return: -5, jump: -3, goto: -4 } as const;
/** What a rule says that has no verdict (NFT_CONTINUE). */
export const NFT_CONTINUE = -1;
/** NF_QUEUE, in the low bits of a verdict (NF_VERDICT_MASK). */
export const NF_QUEUE = 3;
export const NF_VERDICT_MASK = 0xff;
/** NFT_TRACETYPE_* */
export const NFT_TRACETYPE = { POLICY: 1, RETURN: 2, RULE: 3 } as const;

export const NFT_REG_VERDICT = 0;
export const NFT_REG_1 = 1;
export const NFT_REG32_00 = 8;

/** The 32-bit register that a kernel register number begins at. */
export function slotOf(register: number): number {
  return register >= NFT_REG32_00 ? register - NFT_REG32_00 : (register - NFT_REG_1) * 4;
}

export const NFT_PAYLOAD = { NETWORK_HEADER: 1, TRANSPORT_HEADER: 2 } as const;
export const NFT_CMP = { EQ: 0, NEQ: 1, LT: 2, LTE: 3, GT: 4, GTE: 5 } as const;
export const NFT_META = {
  PROTOCOL: 1,
  MARK: 3,
  IIFNAME: 6,
  OIFNAME: 7,
  NFTRACE: 12,
  NFPROTO: 15,
  L4PROTO: 16,
} as const;
export const NFT_CT = {
  STATE: 0,
  DIRECTION: 1,
  STATUS: 2,
  PROTOCOL: 10,
  PROTO_SRC: 11,
  PROTO_DST: 12,
  PACKETS: 14,
  SRC_IP: 19,
  DST_IP: 20,
  SRC_IP6: 21,
  DST_IP6: 22,
} as const;
export const IP_CT_DIR = { ORIGINAL: 0, REPLY: 1, NONE: 0xff } as const;
export const NFT_LOOKUP_F_INV = 1;
/** The route leads through IPsec. */
export const NFT_RT_XFRM = 4;
export const NFT_BYTEORDER_HTON = 1;
/** Connections that a flowtable has are counted as they were before. */
export const NFT_FLOWTABLE_COUNTER = 2;
export const NFT_NG = { INCREMENTAL: 0, RANDOM: 1 } as const;
export const NFT_NAT_DNAT = 1;
export const NF_NAT_RANGE = { MAP_IPS: 1, PROTO_SPECIFIED: 2, PROTO_RANDOM_FULLY: 16 } as const;
export const NFT_REJECT_ICMP_UNREACH = 0;
export const NFT_REJECT_TCP_RST = 1;
export const NFT_REJECT_ICMPX_UNREACH = 2;
export const NFT_REJECT_ICMPX_PORT_UNREACH = 1;
export const NFT_CONNLIMIT_F_INV = 1;
export const NFT_LIMIT_F_INV = 1;
export const NFT_FIB_RESULT_ADDRTYPE = 3;
export const NFTA_FIB_F = { SADDR: 1, DADDR: 2 } as const;
export const RTN_LOCAL = 2;
export const NFT_DYNSET_OP = { ADD: 0, UPDATE: 1, DELETE: 2 } as const;

/** Not a stateful object, but a flowtable: see `objectDelete`. */
export const NFT_OBJECT_UNSPEC = 0;

/** NFT_TABLE_F_* */
export const NFT_TABLE = { DORMANT: 0x1, OWNER: 0x2, PERSIST: 0x4 } as const;

export const NFT_SET = {
  ANONYMOUS: 0x1,
  CONSTANT: 0x2,
  INTERVAL: 0x4,
  MAP: 0x8,
  TIMEOUT: 0x10,
  EVAL: 0x20,
  OBJECT: 0x40,
  CONCAT: 0x80,
} as const;
export const NFT_SET_ELEM_INTERVAL_END = 1;
/** A chain at a hook. */
export const NFT_CHAIN_BASE = 1;
/** An anonymous chain: it is deleted with the rule that refers to it. */
export const NFT_CHAIN_BINDING = 4;
export const NFT_DATA_VERDICT = 0xffffff00;

/** Bit of IP_CT_NEW in `ct state` (NF_CT_STATE_BIT). */
export const CT_STATE_NEW = 8;
/** Bits of IP_CT_ESTABLISHED and IP_CT_RELATED. */
export const CT_STATE_KNOWN = 6;
/** IPS_ASSURED (nf_conntrack_common.h): both sides have sent more than a first packet. */
export const IPS_ASSURED = 4;
/** IPS_CONFIRMED (nf_conntrack_common.h): a packet of it has passed all hooks. */
export const IPS_CONFIRMED = 8;
/** IPS_DST_NAT (nf_conntrack_common.h). */
export const IPS_DST_NAT = 0x20;

export const IPPROTO = { TCP: 6, UDP: 17, SCTP: 132 } as const satisfies Record<Protocol, number>;

const byNumber = new Map<number | undefined, Protocol>(
  protocols.map((protocol) => [IPPROTO[protocol], protocol]),
);

/** The protocol with a number of IPPROTO; undefined: Services can't carry it. */
export function protocolOf(number: number | undefined): Protocol | undefined {
  return byNumber.get(number);
}

/** Type numbers of nft(8), stored in the kernel so that listings can print keys. */
export const NFT_TYPE = {
  ipv4_addr: 7,
  ipv6_addr: 8,
  inet_proto: 12,
  inet_service: 13,
  mark: 19,
  ifname: 41,
} as const;
export type NFTypeName = keyof typeof NFT_TYPE;

/** Bytes of a value of each type, before padding to 4. */
export const typeBytes = {
  ipv4_addr: 4,
  ipv6_addr: 16,
  inet_proto: 1,
  inet_service: 2,
  mark: 4,
  ifname: 16,
} as const satisfies Record<NFTypeName, number>;

/** The number of a concatenation: 6 bits for each part (TYPE_BITS in nft). */
export function concatType(parts: readonly NFTypeName[]): number {
  return parts.reduce((type, part) => type * 64 + NFT_TYPE[part], 0);
}

/** Bytes of a value, or of a concatenation: each part padded to a register. */
export function concatBytes(parts: readonly NFTypeName[]): number {
  if (parts.length === 1) return typeBytes[parts[0]!];
  return parts.reduce((sum, part) => sum + ((typeBytes[part] + 3) & ~3), 0);
}

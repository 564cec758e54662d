/**
 * Rules in nft's own vocabulary. A rule is a list of statements. A statement compiles to the same
 * kernel expressions as nft(8) makes of it, so that nft lists the rule as it was meant, and rules
 * compare byte by byte with what the kernel dumps.
 */
import { type CIDR, type Family, prefixMask } from '../../net/address.ts';
import { expressions, noRegister } from '../ops.ts';
import { RecordWriter } from '../records.ts';
import {
  CT_STATE_KNOWN,
  CT_STATE_NEW,
  IP_CT_DIR,
  IPPROTO,
  IPS_ASSURED,
  IPS_CONFIRMED,
  IPS_DST_NAT,
  NF_NAT_RANGE,
  NFPROTO,
  NFT_BYTEORDER_HTON,
  NFT_CMP,
  NFT_CT,
  NFT_DYNSET_OP,
  NFT_FIB_RESULT_ADDRTYPE,
  NFT_LOOKUP_F_INV,
  NFT_META,
  NFT_NAT_DNAT,
  NFT_NG,
  NFT_PAYLOAD,
  NFT_REG_1,
  NFT_REG_VERDICT,
  NFT_REG32_00,
  NFT_REJECT_ICMP_UNREACH,
  NFT_REJECT_ICMPX_PORT_UNREACH,
  NFT_REJECT_ICMPX_UNREACH,
  NFT_REJECT_TCP_RST,
  NFT_RT_XFRM,
  NFTA_FIB_F,
  RTN_LOCAL,
  typeBytes,
  VERDICT,
} from './constants.ts';

export type Writer = RecordWriter<typeof expressions>;

/** Compiles to one or more expressions. Statements are independent: each starts at register 1. */
export type Statement = (out: Writer) => void;

/** Something that loads a value into registers, `slots` 32-bit registers from `slot` on. */
export interface Selector {
  readonly slots: number;
  load(out: Writer, slot: number): void;
}

/** Records of `expressions`: the content of a rule. */
export function compileRule(statements: readonly Statement[]): Uint8Array {
  const out = new RecordWriter(expressions, 256);
  for (const statement of statements) statement(out);
  return out.finish();
}

/**
 * The number of the 32-bit register `slot` (0..15). The kernel names an aligned one by its
 * 16-byte register (NFT_REG_1 …) when it dumps (nft_dump_register), so we do too.
 */
export function register(slot: number): number {
  return slot % 4 === 0 ? NFT_REG_1 + slot / 4 : NFT_REG32_00 + slot;
}

function selector(slots: number, load: (out: Writer, register: number) => void): Selector {
  return { slots, load: (out, slot) => load(out, register(slot)) };
}

const addressField = {
  IPv4: { saddr: 12, daddr: 16, length: 4 },
  IPv6: { saddr: 8, daddr: 24, length: 16 },
} as const;

function networkAddress(family: Family, field: 'saddr' | 'daddr'): Selector {
  const { length, [field]: offset } = addressField[family];
  return selector(length / 4, (out, register) =>
    out.write('payload', { register, base: NFT_PAYLOAD.NETWORK_HEADER, offset, length }),
  );
}

/** `ip saddr`, `ip6 saddr` */
export const saddr = (family: Family): Selector => networkAddress(family, 'saddr');
/** `ip daddr`, `ip6 daddr` */
export const daddr = (family: Family): Selector => networkAddress(family, 'daddr');

/** `meta l4proto` */
export const l4proto: Selector = selector(1, (out, register) =>
  out.write('metaLoad', { register, key: NFT_META.L4PROTO }),
);

/** `iifname` */
export const inputInterface: Selector = selector(4, (out, register) =>
  out.write('metaLoad', { register, key: NFT_META.IIFNAME }),
);

/** `oifname` */
export const outputInterface: Selector = selector(4, (out, register) =>
  out.write('metaLoad', { register, key: NFT_META.OIFNAME }),
);

/** `th dport`: same place in TCP, UDP and SCTP. */
export const dport: Selector = selector(1, (out, register) =>
  out.write('payload', { register, base: NFT_PAYLOAD.TRANSPORT_HEADER, offset: 2, length: 2 }),
);

/** `th sport` */
export const sport: Selector = selector(1, (out, register) =>
  out.write('payload', { register, base: NFT_PAYLOAD.TRANSPORT_HEADER, offset: 0, length: 2 }),
);

/** `th sport & M` */
export const sportBits = (bits: number): Selector =>
  selector(1, (out, to) => {
    out.write('payload', {
      register: to,
      base: NFT_PAYLOAD.TRANSPORT_HEADER,
      offset: 0,
      length: 2,
    });
    bitwise(out, Uint8Array.of(bits >> 8, bits & 0xff), new Uint8Array(2), to);
  });

/** `numgen random mod N` */
export function random(modulus: number): Selector {
  return selector(1, (out, register) =>
    out.write('numgen', { register, type: NFT_NG.RANDOM, modulus, offset: 0 }),
  );
}

/** `numgen inc mod N`: a counter of the rule. */
export function inTurn(modulus: number): Selector {
  return selector(1, (out, register) =>
    out.write('numgen', { register, type: NFT_NG.INCREMENTAL, modulus, offset: 0 }),
  );
}

/**
 * The seed of hashes. All nodes have the same, so that equal tables lead a client to the same
 * endpoint everywhere; it must not change, or clients of other versions go elsewhere.
 */
export const hashSeed = 0x66616972;

/** `jhash A . B mod N seed S`. What is hashed is loaded where nft loads it. */
export function hashOf(parts: readonly Selector[], modulus: number): Selector {
  return {
    slots: 1,
    load: (out, slot) => {
      const from = slot + 5;
      const length = 4 * (loadAll(out, parts, from) - from);
      const [source, destination] = [register(from), register(slot)];
      out.write('hash', { source, destination, length, modulus, seed: hashSeed, offset: 0 });
    },
  };
}

/** `ct original ip daddr`: the address that the client connected to. */
export function originalDaddr(family: Family): Selector {
  const key = family === 'IPv4' ? NFT_CT.DST_IP : NFT_CT.DST_IP6;
  return selector(addressField[family].length / 4, (out, register) =>
    out.write('ctLoad', { register, key, direction: IP_CT_DIR.ORIGINAL }),
  );
}

/** `ct original ip saddr`: the client's address. */
export function originalSaddr(family: Family): Selector {
  const key = family === 'IPv4' ? NFT_CT.SRC_IP : NFT_CT.SRC_IP6;
  return selector(addressField[family].length / 4, (out, register) =>
    out.write('ctLoad', { register, key, direction: IP_CT_DIR.ORIGINAL }),
  );
}

/** `ct original proto-dst`: the port that the client connected to. */
export const originalDport: Selector = selector(1, (out, register) =>
  out.write('ctLoad', { register, key: NFT_CT.PROTO_DST, direction: IP_CT_DIR.ORIGINAL }),
);

/** `ct protocol`: that of the connection, also where the packet is an ICMP error. */
export const connectionProtocol: Selector = selector(1, (out, register) =>
  out.write('ctLoad', { register, key: NFT_CT.PROTOCOL, direction: IP_CT_DIR.NONE }),
);

/** `ct reply ip saddr`: the address that answers. */
export function replySaddr(family: Family): Selector {
  const key = family === 'IPv4' ? NFT_CT.SRC_IP : NFT_CT.SRC_IP6;
  return selector(addressField[family].length / 4, (out, register) =>
    out.write('ctLoad', { register, key, direction: IP_CT_DIR.REPLY }),
  );
}

/** `ct reply proto-src`: the port that answers. */
export const replySport: Selector = selector(1, (out, register) =>
  out.write('ctLoad', { register, key: NFT_CT.PROTO_SRC, direction: IP_CT_DIR.REPLY }),
);

/** Loads a concatenation from `slot` on; returns the first slot after it. */
function loadAll(out: Writer, selectors: readonly Selector[], slot = 0): number {
  let at = slot;
  for (const part of selectors) {
    part.load(out, at);
    at += part.slots;
  }
  return at;
}

/** Bytes of a host-order 32-bit value. */
function word(value: number): Uint8Array {
  return new Uint8Array(new Uint32Array([value]).buffer);
}

const zeroWord = word(0);

/** `@set` or `!= @set` */
export function inSet(
  selectors: readonly Selector[],
  set: string,
  operator: '==' | '!=' = '==',
): Statement {
  return (out) => {
    loadAll(out, selectors);
    const flags = operator === '!=' ? NFT_LOOKUP_F_INV : 0;
    out.write('lookup', { set, source: register(0), destination: noRegister, flags });
  };
}

/** `… vmap @map` */
export function vmap(selectors: readonly Selector[], map: string): Statement {
  return (out) => {
    loadAll(out, selectors);
    out.write('lookup', { set: map, source: register(0), destination: NFT_REG_VERDICT, flags: 0 });
  };
}

/** `dnat ip addr . port to … map @map`, or `dnat ip to …`. Without an element the next rule follows. */
export function dnatTo(
  family: Family,
  selectors: readonly Selector[],
  map: string,
  keepsPort = false,
): Statement {
  return (out) => {
    loadAll(out, selectors);
    out.write('lookup', { set: map, source: register(0), destination: register(0), flags: 0 });
    const address = register(0);
    const port = keepsPort ? noRegister : register(addressField[family].length / 4);
    out.write('nat', {
      type: NFT_NAT_DNAT,
      family: NFPROTO[family],
      addressMin: address,
      addressMax: address,
      portMin: port,
      portMax: port,
      flags: NF_NAT_RANGE.MAP_IPS | (keepsPort ? 0 : NF_NAT_RANGE.PROTO_SPECIFIED),
    });
  };
}

/**
 * `update @set { key }`. When the set is full, the rule ends: put what follows into another rule.
 * With `over`: `{ key ct count over N }`. A set with that statement would have it copied into the
 * rule, whose end gives up a reference that only the set has taken (nft_dynset_init, Linux 6.18);
 * without references connection tracking ends, and with it all translation.
 */
export function updateSet(set: string, key: readonly Selector[], over?: number): Statement {
  return changeSet(set, key, NFT_DYNSET_OP.UPDATE, over);
}

/** `add @set { key }`, likewise. When the set is full, the rule ends. */
export function addToSet(set: string, key: readonly Selector[], over?: number): Statement {
  return changeSet(set, key, NFT_DYNSET_OP.ADD, over);
}

/** `delete @set { key }`. Without such an element nothing happens. */
export function deleteFromSet(set: string, key: readonly Selector[]): Statement {
  return changeSet(set, key, NFT_DYNSET_OP.DELETE);
}

function changeSet(set: string, key: readonly Selector[], operation: number, over = noRegister) {
  return (out: Writer): void => {
    loadAll(out, key);
    const data = noRegister;
    out.write('dynset', { set, operation, key: register(0), data, timeoutMs: 0, over });
  };
}

/** `update @map { key timeout T : data }` */
export function updateMap(
  map: string,
  key: readonly Selector[],
  data: readonly Selector[],
  timeoutSeconds: number,
): Statement {
  return (out) => {
    // As nft does: the data starts in a new 16-byte register.
    const dataSlot = Math.ceil(loadAll(out, key) / 4) * 4;
    loadAll(out, data, dataSlot);
    out.write('dynset', {
      set: map,
      operation: NFT_DYNSET_OP.UPDATE,
      key: register(0),
      data: register(dataSlot),
      timeoutMs: timeoutSeconds * 1000,
      over: noRegister,
    });
  };
}

/** `ip saddr C`, `ip saddr != C` and the same for daddr. A prefix of 0 matches everything. */
export function matchCIDR(
  field: 'saddr' | 'daddr',
  operator: '==' | '!=',
  { address, prefixLength }: CIDR,
): Statement {
  const { [field]: offset, length } = addressField[address.family];
  const operation = NFT_CMP[operator === '==' ? 'EQ' : 'NEQ'];
  const base = NFT_PAYLOAD.NETWORK_HEADER;
  return (out) => {
    if (prefixLength % 8 === 0) {
      // As nft does: only as many bytes as the prefix has are loaded and compared.
      const bytes = Math.max(1, prefixLength / 8);
      out.write('payload', { register: register(0), base, offset, length: bytes });
      if (prefixLength === 0) maskFirstByte(out);
      out.write('cmp', { register: register(0), operation, data: address.bytes.slice(0, bytes) });
      return;
    }
    out.write('payload', { register: register(0), base, offset, length });
    bitwise(out, prefixMask(length, prefixLength), new Uint8Array(length));
    out.write('cmp', { register: register(0), operation, data: address.bytes });
  };
}

function maskFirstByte(out: Writer): void {
  bitwise(out, new Uint8Array(1), new Uint8Array(1));
}

function bitwise(out: Writer, mask: Uint8Array, xor: Uint8Array, at = register(0)): void {
  out.write('bitwise', { source: at, destination: at, length: mask.length, mask, xor });
}

function compare(out: Writer, operator: '==' | '!=', data: Uint8Array): void {
  const operation = NFT_CMP[operator === '==' ? 'EQ' : 'NEQ'];
  out.write('cmp', { register: register(0), operation, data });
}

/** `meta nfproto ipv4`, in a table of both families */
export function matchFamily(family: Family): Statement {
  return (out) => {
    out.write('metaLoad', { register: register(0), key: NFT_META.NFPROTO });
    compare(out, '==', Uint8Array.of(NFPROTO[family]));
  };
}

/** `meta l4proto tcp` */
export function matchProtocol(protocol: keyof typeof IPPROTO): Statement {
  return matchProtocolNumber(IPPROTO[protocol]);
}

function matchProtocolNumber(number: number): Statement {
  return (out) => {
    l4proto.load(out, 0);
    compare(out, '==', Uint8Array.of(number));
  };
}

/** IPPROTO_ICMP, IPPROTO_ICMPV6 (linux/in.h). */
const icmpProtocol = { IPv4: 1, IPv6: 58 } as const satisfies Record<Family, number>;

/** `meta l4proto icmp`, `meta l4proto ipv6-icmp` */
export function matchIcmp(family: Family): Statement {
  return matchProtocolNumber(icmpProtocol[family]);
}

/** Bits of the 14th byte of TCP's header. */
const [tcpSyn, tcpRst, tcpAck] = [2, 4, 16];

/** Of the flags in `mask` exactly those in `flags` are set. */
function matchTcpFlags(mask: number, flags: number): Statement {
  return (out) => {
    out.write('payload', {
      register: register(0),
      base: NFT_PAYLOAD.TRANSPORT_HEADER,
      offset: 13,
      length: 1,
    });
    bitwise(out, Uint8Array.of(mask), new Uint8Array(1));
    compare(out, '==', Uint8Array.of(flags));
  };
}

/** `tcp flags & (syn | ack) == syn`: asks for a connection. */
export const matchSyn: Statement = matchTcpFlags(tcpSyn | tcpAck, tcpSyn);
/** `tcp flags & (syn | ack) == syn | ack`: accepts a connection. */
export const matchSynAck: Statement = matchTcpFlags(tcpSyn | tcpAck, tcpSyn | tcpAck);
/** `tcp flags & rst == rst` */
export const matchReset: Statement = matchTcpFlags(tcpRst, tcpRst);

/**
 * `tcp flags & (rst | ack) == rst | ack tcp sequence 0`: refuses a connection. Such a reset has the
 * sequence number 0 (RFC 9293, 3.5.2); one of a connection has that of its last byte.
 */
export const matchRefusal: Statement = (out) => {
  matchTcpFlags(tcpRst | tcpAck, tcpRst | tcpAck)(out);
  const base = NFT_PAYLOAD.TRANSPORT_HEADER;
  out.write('payload', { register: register(0), base, offset: 4, length: 4 });
  compare(out, '==', zeroWord);
};

/** `meta nftrace set 1` */
export const setTrace: Statement = (out) => {
  out.write('immediateData', { register: register(0), data: Uint8Array.of(1) });
  out.write('metaSet', { register: register(0), key: NFT_META.NFTRACE });
};

/** `iifname "br0"` */
export function matchInterface(operator: '==' | '!=', name: string): Statement {
  return matchInterfaceBytes(operator, interfaceBytes(name));
}

/** `iifname "veth*"` */
export function matchInterfacePrefix(operator: '==' | '!=', prefix: string): Statement {
  return matchInterfaceBytes(operator, new TextEncoder().encode(prefix));
}

/** `oifname != "lo"` */
export function matchOutputInterface(operator: '==' | '!=', name: string): Statement {
  return matchInterfaceBytes(operator, interfaceBytes(name), NFT_META.OIFNAME);
}

/** The name of a device as rules and sets have it. */
export function interfaceBytes(name: string): Uint8Array {
  return new TextEncoder().encode(name.padEnd(typeBytes.ifname, '\0'));
}

function matchInterfaceBytes(
  operator: '==' | '!=',
  name: Uint8Array,
  key: number = NFT_META.IIFNAME,
): Statement {
  return (out) => {
    out.write('metaLoad', { register: register(0), key });
    compare(out, operator, name);
  };
}

/** `fib daddr type local`, `fib saddr type local` */
export function matchLocalAddress(field: 'saddr' | 'daddr'): Statement {
  return (out) => {
    out.write('fib', {
      register: register(0),
      result: NFT_FIB_RESULT_ADDRTYPE,
      flags: field === 'saddr' ? NFTA_FIB_F.SADDR : NFTA_FIB_F.DADDR,
    });
    compare(out, '==', word(RTN_LOCAL));
  };
}

function matchCtBits(key: number, bits: number): Statement {
  return (out) => {
    out.write('ctLoad', { register: register(0), key, direction: IP_CT_DIR.NONE });
    bitwise(out, word(bits), zeroWord);
    compare(out, '!=', zeroWord);
  };
}

/** `ct state new` */
export const stateNew: Statement = matchCtBits(NFT_CT.STATE, CT_STATE_NEW);
/** `ct state established,related` */
export const stateKnown: Statement = matchCtBits(NFT_CT.STATE, CT_STATE_KNOWN);
/** `ct status dnat` */
export const statusDNAT: Statement = matchCtBits(NFT_CT.STATUS, IPS_DST_NAT);

/** `ct status ! confirmed`: no packet of the connection has passed all hooks of this node yet. */
export const statusUnconfirmed: Statement = (out) => {
  const [key, direction] = [NFT_CT.STATUS, IP_CT_DIR.NONE];
  out.write('ctLoad', { register: register(0), key, direction });
  bitwise(out, word(IPS_CONFIRMED), zeroWord);
  compare(out, '==', zeroWord);
};

/** `ct status & (assured | dnat) == dnat`: translated, and not in use by both sides yet. */
export const statusYoungDNAT: Statement = (out) => {
  out.write('ctLoad', { register: register(0), key: NFT_CT.STATUS, direction: IP_CT_DIR.NONE });
  bitwise(out, word(IPS_ASSURED | IPS_DST_NAT), zeroWord);
  compare(out, '==', word(IPS_DST_NAT));
};

/** `ct direction reply` */
export const directionReply: Statement = (out) => {
  out.write('ctLoad', {
    register: register(0),
    key: NFT_CT.DIRECTION,
    direction: IP_CT_DIR.NONE,
  });
  compare(out, '==', Uint8Array.of(IP_CT_DIR.REPLY));
};

/** `ct protocol tcp` */
export function matchConnectionProtocol(protocol: keyof typeof IPPROTO): Statement {
  return (out) => {
    connectionProtocol.load(out, 0);
    compare(out, '==', Uint8Array.of(IPPROTO[protocol]));
  };
}

/** `ct packets > N`: both directions together. The kernel counts from then on, if it did not. */
export function packetsAbove(count: number): Statement {
  return (out) => {
    const [source, length] = [register(0), 8];
    out.write('ctLoad', {
      register: source,
      key: NFT_CT.PACKETS,
      direction: IP_CT_DIR.NONE,
    });
    const operation = NFT_BYTEORDER_HTON;
    out.write('byteorder', { source, destination: source, operation, length, size: length });
    const data = new Uint8Array(length);
    new DataView(data.buffer).setBigUint64(0, BigInt(count));
    out.write('cmp', { register: source, operation: NFT_CMP.GT, data });
  };
}

/** `rt ipsec missing`: nothing encrypts the packet behind this hook. */
export const withoutIPsec: Statement = (out) => {
  out.write('rtLoad', { register: register(0), key: NFT_RT_XFRM });
  compare(out, '==', Uint8Array.of(0));
};

/** `flow add @flowtable` */
export function flowAdd(flowtable: string): Statement {
  return (out) => void out.write('flowOffload', { flowtable });
}

/** `meta mark & M != 0` */
export function matchMark(mark: number): Statement {
  return (out) => {
    out.write('metaLoad', { register: register(0), key: NFT_META.MARK });
    bitwise(out, word(mark), zeroWord);
    compare(out, '!=', zeroWord);
  };
}

function changeMark(mask: number, xor: number): Statement {
  return (out) => {
    out.write('metaLoad', { register: register(0), key: NFT_META.MARK });
    bitwise(out, word(mask), word(xor));
    out.write('metaSet', { register: register(0), key: NFT_META.MARK });
  };
}

/** `meta mark set meta mark | M` */
export const setMark = (mark: number): Statement => changeMark(~mark >>> 0, mark);
/** `meta mark set meta mark ^ M` */
export const toggleMark = (mark: number): Statement => changeMark(0xffffffff, mark);

/** `masquerade fully-random` */
export const masquerade: Statement = (out) => {
  out.write('masquerade', { flags: NF_NAT_RANGE.PROTO_RANDOM_FULLY });
};

const portUnreachable = { IPv4: 3, IPv6: 4 } as const satisfies Record<Family, number>;

/** `reject`: ICMP port unreachable, for every protocol as upstream. */
export function reject(family: Family): Statement {
  return (out) => {
    out.write('reject', { type: NFT_REJECT_ICMP_UNREACH, icmpCode: portUnreachable[family] });
  };
}

/** `reject with icmpx port-unreachable`, in a table of both families */
export const rejectAny: Statement = (out) => {
  out.write('reject', {
    type: NFT_REJECT_ICMPX_UNREACH,
    icmpCode: NFT_REJECT_ICMPX_PORT_UNREACH,
  });
};

/** `reject with tcp reset` */
export const resetTCP: Statement = (out) => {
  out.write('reject', { type: NFT_REJECT_TCP_RST, icmpCode: 0 });
};

export const drop: Statement = (out) => {
  out.write('immediateVerdict', { code: VERDICT.drop, chain: '' });
};

/** `return` */
export const returnToCaller: Statement = (out) => {
  out.write('immediateVerdict', { code: VERDICT.return, chain: '' });
};

export function jump(chain: string): Statement {
  return (out) => void out.write('immediateVerdict', { code: VERDICT.jump, chain });
}

export function goto(chain: string): Statement {
  return (out) => void out.write('immediateVerdict', { code: VERDICT.goto, chain });
}

/**
 * `-m tcp [--dport N]`, likewise udp and sctp, and for TCP `! --tcp-flags SYN,ACK SYN`. iptables-nft
 * 1.8.9 writes native expressions for the port of TCP and UDP, and structures for SCTP and where no
 * port is asked for (struct xt_tcp, xt_udp, xt_sctp_info). For a range of ports all are structures,
 * as older ones write it: the native form has an expression that nothing else here needs.
 */
import type { Protocol } from '../../../net/protocol.ts';
import { NFT_CMP, NFT_PAYLOAD, NFT_REG_1 } from '../../nft/constants.ts';
import { type Codec, type Cursor, structure, viewOf, type Writer } from '../codec.ts';

/** Needs the rule's `protocol`. */
export interface PortMatch {
  readonly kind: 'port';
  /** Destination port; undefined = any. */
  readonly dport: number | undefined;
  /** Of a range, which begins at `dport`. */
  readonly lastPort?: number | undefined;
  /** Of TCP, and with a port: only packets that do not ask for a connection. */
  readonly isOpen?: true;
}

const revision = 0;
const portMax = 0xffff;
const tcpOrUdpBytes = { TCP: 12, UDP: 10 } as const;
const sctp = { dport: 0, flagInfo: 268, flagInfoEnd: 280, flags: 284, end: 292 } as const;
const XT_SCTP_DEST_PORTS = 2;
/** A protocol's dport: its offset in the transport header and its length. */
const dportField = { offset: 2, length: 2 } as const;
/** The flags of TCP, of which these two say that a packet asks for a connection. */
const flagsField = { offset: 13, length: 1 } as const;
const [synOrAck, syn] = [Uint8Array.of(0x12), Uint8Array.of(0x02)];

function writeIsOpen(out: Writer): void {
  const base = NFT_PAYLOAD.TRANSPORT_HEADER;
  const [source, destination] = [NFT_REG_1, NFT_REG_1];
  out.write('payload', { register: NFT_REG_1, base, ...flagsField });
  const xor = new Uint8Array(1);
  out.write('bitwise', { source, destination, length: 1, mask: synOrAck, xor });
  out.write('cmp', { register: NFT_REG_1, operation: NFT_CMP.NEQ, data: syn });
}

/** `-m tcp --dport N[:M]` */
export function dport(port: number, lastPort?: number): PortMatch {
  return lastPort === undefined
    ? { kind: 'port', dport: port }
    : { kind: 'port', dport: port, lastPort };
}

/** `-m tcp --dport N ! --tcp-flags SYN,ACK SYN` */
export function openTo(port: number): PortMatch {
  return { kind: 'port', dport: port, isOpen: true };
}

/** `-m tcp` */
export const anyPort: PortMatch = { kind: 'port', dport: undefined };

function write(protocol: Protocol, { dport: port, lastPort }: PortMatch, out: Writer): void {
  if (protocol === 'SCTP') {
    out.write('match', { name: 'sctp', revision, info: sctpInfo(port, lastPort) });
  } else if (port === undefined || lastPort !== undefined) {
    const { info, view } = structure(tcpOrUdpBytes[protocol]);
    // From 0 to 65535: source ports, destination ports.
    view.setUint16(2, portMax, true);
    view.setUint16(4, port ?? 0, true);
    view.setUint16(6, lastPort ?? portMax, true);
    out.write('match', { name: protocol.toLowerCase(), revision, info });
  } else {
    const base = NFT_PAYLOAD.TRANSPORT_HEADER;
    out.write('payload', { register: NFT_REG_1, base, ...dportField });
    const data = Uint8Array.of(port >> 8, port & 0xff);
    out.write('cmp', { register: NFT_REG_1, operation: NFT_CMP.EQ, data });
  }
}

function sctpInfo(port: number | undefined, lastPort = port): Uint8Array {
  const { info, view } = structure(sctp.end);
  // No chunk has a flag that matters: type -1, 3 bytes each.
  for (let at: number = sctp.flagInfo; at < sctp.flagInfoEnd; at += 3) info[at] = 0xff;
  if (port === undefined) return info;
  view.setUint16(sctp.dport, port, true);
  view.setUint16(sctp.dport + 2, lastPort!, true);
  view.setUint32(sctp.flags, XT_SCTP_DEST_PORTS, true);
  return info;
}

export const portCodec: Codec<PortMatch> = {
  write(match, out, { protocol }) {
    if (protocol === undefined) throw new RangeError('a port without a protocol');
    if (match.isOpen) writeIsOpen(out);
    write(protocol, match, out);
  },
  print({ dport: port, isOpen = false, lastPort }, { protocol }) {
    const name = protocol?.toLowerCase();
    const last = lastPort === undefined ? '' : `:${lastPort}`;
    const flags = isOpen ? ' ! --tcp-flags SYN,ACK SYN' : '';
    return port === undefined ? `-m ${name}` : `-m ${name} --dport ${port}${last}${flags}`;
  },
};

/** The native form. */
export function readPort(cursor: Cursor): PortMatch | undefined {
  const isOpen = cursor.attempt(readIsOpen);
  const payload = cursor.take('payload');
  const cmp = cursor.take('cmp');
  if (payload?.base !== NFT_PAYLOAD.TRANSPORT_HEADER) return undefined;
  if (payload.offset !== dportField.offset || payload.length !== dportField.length) {
    return undefined;
  }
  if (cmp?.operation !== NFT_CMP.EQ || cmp.data.length !== 2) return undefined;
  const port = viewOf(cmp.data).getUint16(0);
  return isOpen ? openTo(port) : dport(port);
}

/** `readRule` checks the rest. */
function readIsOpen(cursor: Cursor): true | undefined {
  const payload = cursor.take('payload');
  if (payload?.offset !== flagsField.offset || payload.length !== flagsField.length) {
    return undefined;
  }
  return cursor.take('bitwise') && cursor.take('cmp') && true;
}

export function readSctp(info: Uint8Array): PortMatch {
  const view = viewOf(info);
  return view.getUint32(sctp.flags, true) === 0 ? anyPort : portsAt(view, 0);
}

/** From `-m tcp` or `-m udp` as a structure. */
export function readPorts(info: Uint8Array): PortMatch {
  const ports = portsAt(viewOf(info), 4);
  return ports.dport === 0 && ports.lastPort === portMax ? anyPort : ports;
}

function portsAt(view: DataView, at: number): PortMatch {
  const [first, last] = [view.getUint16(at, true), view.getUint16(at + 2, true)];
  return dport(first, last === first ? undefined : last);
}

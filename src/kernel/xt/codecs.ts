/** Every match and every target, by kind, and by the name of its structure. */
import type { Family } from '../../net/address.ts';
import type { Codec } from './codec.ts';
import { addrTypeCodec, readAddrType } from './matches/addrtype.ts';
import { commentCodec, readComment } from './matches/comment.ts';
import { conntrackCodec, readConntrack } from './matches/conntrack.ts';
import { markCodec } from './matches/mark.ts';
import { nfacctCodec, readNfacct } from './matches/nfacct.ts';
import { portCodec, readPorts, readSctp } from './matches/port.ts';
import { readRecent, recentCodec } from './matches/recent.ts';
import { readStatistic, statisticCodec } from './matches/statistic.ts';
import type { Match, Target } from './rule.ts';
import { dnatCodec, readDNAT } from './targets/dnat.ts';
import { markTargetCodec, readMarkTarget } from './targets/mark.ts';
import { masquerade, masqueradeCodec } from './targets/masquerade.ts';
import { readReject, rejectCodec } from './targets/reject.ts';
import { jumpCodec, verdictCodec } from './targets/verdict.ts';

type Codecs<Part extends { readonly kind: string }> = {
  readonly [K in Part['kind']]: Codec<Extract<Part, { kind: K }>>;
};

const matchCodecs: Codecs<Match> = {
  addrtype: addrTypeCodec,
  comment: commentCodec,
  conntrack: conntrackCodec,
  mark: markCodec,
  nfacct: nfacctCodec,
  port: portCodec,
  recent: recentCodec,
  statistic: statisticCodec,
};

const targetCodecs: Codecs<Target> = {
  accept: verdictCodec,
  dnat: dnatCodec,
  drop: verdictCodec,
  jump: jumpCodec,
  mark: markTargetCodec,
  masquerade: masqueradeCodec,
  reject: rejectCodec,
  return: verdictCodec,
};

export function matchCodec(match: Match): Codec<Match> {
  return matchCodecs[match.kind] as Codec<Match>;
}

export function targetCodec(target: Target): Codec<Target> {
  return targetCodecs[target.kind] as Codec<Target>;
}

type ReadStructure<Part> = (info: Uint8Array, family: Family) => Part;

/** Readers of structures. They need not check all of a structure, because `readRule` does. */
export const matchReaders: Readonly<Record<string, ReadStructure<Match>>> = {
  addrtype: readAddrType,
  comment: readComment,
  conntrack: readConntrack,
  nfacct: readNfacct,
  recent: readRecent,
  sctp: readSctp,
  statistic: readStatistic,
  tcp: readPorts,
  udp: readPorts,
};

export const targetReaders: Readonly<Record<string, ReadStructure<Target>>> = {
  DNAT: readDNAT,
  MARK: readMarkTarget,
  MASQUERADE: () => masquerade,
  REJECT: readReject,
};

/**
 * A rule of iptables as data, in the terms of iptables(8). `compile.ts` makes of it what
 * iptables-nft 1.8.9 writes for the same words, `print.ts` the line that iptables-save prints.
 */
import type { CIDR } from '../../net/address.ts';
import type { Protocol } from '../../net/protocol.ts';
import type { Operator } from './codec.ts';
import type { AddrTypeMatch } from './matches/addrtype.ts';
import type { CommentMatch } from './matches/comment.ts';
import type { ConntrackMatch } from './matches/conntrack.ts';
import type { MarkMatch } from './matches/mark.ts';
import type { NfacctMatch } from './matches/nfacct.ts';
import type { PortMatch } from './matches/port.ts';
import type { RecentMatch } from './matches/recent.ts';
import type { StatisticMatch } from './matches/statistic.ts';
import type { DNATTarget } from './targets/dnat.ts';
import type { MarkTarget } from './targets/mark.ts';
import type { MasqueradeTarget } from './targets/masquerade.ts';
import type { RejectTarget } from './targets/reject.ts';
import type { JumpTarget, VerdictTarget } from './targets/verdict.ts';

/** `-s`, `-d`. A prefix of 0 matches everything, and leaves no trace in the kernel. */
export interface AddressMatch {
  readonly operator: Operator;
  readonly cidr: CIDR;
}

/** `-i`. `name+` means every interface whose name begins so. */
export interface InterfaceMatch {
  readonly operator: Operator;
  readonly name: string;
}

export type Match =
  | AddrTypeMatch
  | CommentMatch
  | ConntrackMatch
  | MarkMatch
  | NfacctMatch
  | PortMatch
  | RecentMatch
  | StatisticMatch;

export type Target =
  | DNATTarget
  | JumpTarget
  | MarkTarget
  | MasqueradeTarget
  | RejectTarget
  | VerdictTarget;

export interface XtRule {
  readonly source?: AddressMatch;
  readonly destination?: AddressMatch;
  readonly inputInterface?: InterfaceMatch;
  /** `-p` */
  readonly protocol?: Protocol;
  /** `-m`, in the order in which they are asked. */
  readonly matches?: readonly Match[];
  /** `-j`; without it the rule only counts. */
  readonly target?: Target;
}

export function is(cidr: CIDR): AddressMatch {
  return { operator: '==', cidr };
}

export function isNot(cidr: CIDR): AddressMatch {
  return { operator: '!=', cidr };
}

/** Matches and targets of iptables-nft, as far as they say something of a packet's destination. */
import type { Expression } from '../../../kernel/ops.ts';
import {
  asksStateOnly,
  type ConntrackState,
  readConntrack,
} from '../../../kernel/xt/matches/conntrack.ts';
import { isUntracking } from '../../../kernel/xt/untracking.ts';
import type { Action, Condition } from './walk.ts';

const unknown: Condition = () => undefined;

/** Targets after which the next rule applies. */
const harmless: ReadonlySet<string> = new Set([
  ...['AUDIT', 'CHECKSUM', 'CLASSIFY', 'CONNMARK', 'CONNSECMARK', 'CT', 'DSCP', 'ECN', 'HL'],
  ...['LOG', 'MARK', 'NFLOG', 'SECMARK', 'SET', 'TCPMSS', 'TOS', 'TRACE', 'TTL'],
]);
const redirecting: ReadonlySet<string> = new Set(['DNAT', 'REDIRECT', 'TPROXY']);

export function targetAction(target: Extract<Expression, { kind: 'target' }>): Action {
  const { name } = target;
  if (name === 'REJECT') return { kind: 'reject' };
  if (isUntracking(target)) return { kind: 'untrack' };
  if (redirecting.has(name)) return { kind: 'redirect' };
  return { kind: harmless.has(name) ? 'none' : 'unsure' };
}

type Match = Extract<Expression, { kind: 'match' }>;

/** No condition: it says nothing. */
export function readMatch({ info, name, revision }: Match): Condition[] {
  if (name === 'comment') return [];
  const view = new DataView(info.buffer, info.byteOffset, info.byteLength);
  if ((name === 'tcp' || name === 'udp') && revision === 0) return [ports(name, view)];
  if (name === 'multiport' && revision === 1) return [multiport(view)];
  if (name === 'conntrack' && revision === 3) return [connectionState(info)];
  if (name === 'addrtype' && revision === 1) return [addressType(view)];
  return [unknown];
}

/** struct xt_tcp, struct xt_udp: ports in host order. */
function ports(name: 'tcp' | 'udp', view: DataView): Condition {
  const isTCP = name === 'tcp';
  const [inverted, flags] = isTCP ? [view.getUint8(11), view.getUint8(9)] : [view.getUint8(8), 0];
  const option = isTCP ? view.getUint8(8) : 0;
  const isAnySource = view.getUint16(0, true) === 0 && view.getUint16(2, true) === 0xffff;
  const [min, max] = [view.getUint16(4, true), view.getUint16(6, true)];
  const isPlain = isAnySource && flags === 0 && option === 0 && (inverted & ~2) === 0;
  return ({ dport }) => {
    const isIn = dport >= min && dport <= max;
    if (isIn === ((inverted & 2) !== 0)) return false;
    return isPlain ? true : undefined;
  };
}

const statesOfFirst: readonly ConntrackState[] = ['INVALID', 'NEW', 'RELATED', 'ESTABLISHED'];

function connectionState(info: Uint8Array): Condition {
  const { operator, states } = readConntrack(info);
  const isPlain = asksStateOnly(info);
  if (!isPlain || !states.every((state) => statesOfFirst.includes(state))) return unknown;
  return ({ isTracked }) => states.includes(isTracked ? 'NEW' : 'INVALID') === (operator === '==');
}

/** XT_ADDRTYPE_LOCAL */
const localType = 4;

/** struct xt_addrtype_info_v1: the types of both addresses, and flags. */
function addressType(view: DataView): Condition {
  const [source, destination] = [view.getUint16(0, true), view.getUint16(2, true)];
  const isPlain = source === 0 && view.getUint32(4, true) === 0;
  if (!isPlain || destination !== localType) return unknown;
  return ({ daddr }) => (daddr === undefined ? true : undefined);
}

/** XT_MULTIPORT_DESTINATION */
const destinationPorts = 1;

/** struct xt_multiport_v1: up to 15 ports; a port whose flag is set begins a range. */
function multiport(view: DataView): Condition {
  const [kind, count] = [view.getUint8(0), view.getUint8(1)];
  if (kind !== destinationPorts || count > 15) return unknown;
  const ranges: (readonly [number, number])[] = [];
  const port = (index: number): number => view.getUint16(2 + 2 * index, true);
  for (let i = 0; i < count; i += 1) {
    const isRange = view.getUint8(32 + i) !== 0 && i + 1 < count;
    ranges.push([port(i), port(isRange ? i + 1 : i)]);
    if (isRange) i += 1;
  }
  const isInverted = view.getUint8(47) !== 0;
  return ({ dport }) => ranges.some(([min, max]) => dport >= min && dport <= max) !== isInverted;
}

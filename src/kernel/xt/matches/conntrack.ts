/** `-m conntrack [!] --ctstate …` (struct xt_conntrack_mtinfo3). */
import { type Codec, type Operator, structure, viewOf } from '../codec.ts';

/** Bits of the state (XT_CONNTRACK_STATE_*), in the order in which iptables-save prints them. */
const stateBits = {
  INVALID: 0x01,
  NEW: 0x08,
  RELATED: 0x04,
  ESTABLISHED: 0x02,
  UNTRACKED: 0x100,
  SNAT: 0x40,
  DNAT: 0x80,
} as const;

export type ConntrackState = keyof typeof stateBits;

export interface ConntrackMatch {
  readonly kind: 'conntrack';
  readonly operator: Operator;
  /** Matches any of them. */
  readonly states: readonly ConntrackState[];
}

const name = 'conntrack';
const revision = 3;
/** Offsets of the fields in use. 8 addresses of 16 bytes, 2 times and 5 ports precede them. */
const at = { matchFlags: 146, invertFlags: 148, stateMask: 150, end: 164 } as const;
const XT_CONNTRACK_STATE = 1;

export function ctState(
  states: readonly ConntrackState[],
  operator: Operator = '==',
): ConntrackMatch {
  return { kind: 'conntrack', operator, states };
}

export const conntrackCodec: Codec<ConntrackMatch> = {
  write({ operator, states }, out) {
    const { info, view } = structure(at.end);
    view.setUint16(at.matchFlags, XT_CONNTRACK_STATE, true);
    view.setUint16(at.invertFlags, operator === '!=' ? XT_CONNTRACK_STATE : 0, true);
    const mask = states.reduce((bits, state) => bits | stateBits[state], 0);
    view.setUint16(at.stateMask, mask, true);
    out.write('match', { name, revision, info });
  },
  print({ operator, states }) {
    const ordered = Object.keys(stateBits).filter((state) => states.includes(state as never));
    return `-m conntrack ${operator === '!=' ? '! ' : ''}--ctstate ${ordered.join(',')}`;
  },
};

/** Whether it asks for the state, and for nothing else. */
export function asksStateOnly(info: Uint8Array): boolean {
  return viewOf(info).getUint16(at.matchFlags, true) === XT_CONNTRACK_STATE;
}

export function readConntrack(info: Uint8Array): ConntrackMatch {
  const view = viewOf(info);
  const mask = view.getUint16(at.stateMask, true);
  const states = Object.entries(stateBits).filter(([, bit]) => (mask & bit) !== 0);
  const operator = view.getUint16(at.invertFlags, true) === 0 ? '==' : '!=';
  return ctState(
    states.map(([state]) => state as ConntrackState),
    operator,
  );
}

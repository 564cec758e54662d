/**
 * What rules of other programs do to a packet of which the destination is known, and perhaps the
 * sender: also its interface or its mark may decide. A result is given only where it is certain.
 */
import type { Family } from '../../../net/address.ts';

/** A new connection's first packet. */
export interface FirstPacket {
  readonly family: Family;
  /** IPPROTO_* */
  readonly protocol: number;
  /** Undefined: any. */
  readonly saddr: Uint8Array | undefined;
  /** Undefined: any of the node, as for a node port. */
  readonly daddr: Uint8Array | undefined;
  /** Host order. */
  readonly dport: number;
  /** Bits of its mark that are known to be 0. */
  readonly clearMark: number;
  /** Connection tracking has seen it already. */
  readonly isTracked: boolean;
  /** It does not come by the loopback device. */
  readonly isFromOutside: boolean;
  /** Devices by one of which it comes in; undefined: any. */
  readonly devices?: ReadonlySet<string> | undefined;
  /** It is translated later, if connection tracking sees it. */
  readonly awaitsTranslation: boolean;
}

/** Undefined: it depends on what is not known. */
export type Condition = (packet: FirstPacket) => boolean | undefined;

export type Action =
  | { readonly kind: 'none' | 'accept' | 'return' }
  | { readonly kind: 'drop' | 'reject' | 'redirect' }
  /** Connection tracking does not see the packet. The next rule applies. */
  | { readonly kind: 'untrack' }
  | { readonly kind: 'jump' | 'goto'; readonly chain: string }
  /** It may accept the packet, or leave the chain. */
  | { readonly kind: 'unsure' };

export interface WalkedRule {
  readonly conditions: readonly Condition[];
  readonly action: Action;
  /** Single senders that its conditions name. */
  readonly senders: readonly Uint8Array[];
  /** For people. */
  readonly text: () => string;
}

/** Chains of one table by name. They do not change once a packet was followed through them. */
type Chains = ReadonlyMap<string, readonly WalkedRule[]>;

/** Where a packet ends. */
export interface Stop {
  readonly what: 'drop' | 'reject' | 'redirect' | 'untrack';
  /** Undefined: the policy of the base chain. */
  readonly rule: WalkedRule | undefined;
}

type Way = Stop | 'accepted' | 'through' | 'unsure';

/** Undefined: it passes, or that is not certain. */
export function stopIn(
  chains: Chains,
  base: string,
  isDropPolicy: boolean,
  packet: FirstPacket,
): Stop | undefined {
  const way = walk(chains, base, packet);
  if (typeof way === 'object') return way;
  return way === 'through' && isDropPolicy ? { what: 'drop', rule: undefined } : undefined;
}

function walk(chains: Chains, name: string, packet: FirstPacket): Way {
  for (const rule of chains.get(name) ?? []) {
    const { action } = rule;
    if (action.kind === 'none') continue;
    const meets = truthOf(rule.conditions, packet);
    if (meets === false) continue;
    const way =
      meets === undefined
        ? perhaps(chains, action, packet)
        : certainly(chains, rule, action, packet);
    if (way === 'return') return 'through';
    if (way !== 'on') return way;
  }
  return 'through';
}

/** Packets that it stops do not come further; whether others do, the following rules decide. */
function perhaps(chains: Chains, action: Action, packet: FirstPacket): 'on' | 'unsure' {
  switch (action.kind) {
    case 'drop':
    case 'reject':
    case 'redirect':
    case 'untrack':
      return 'on';
    case 'jump': {
      if (!abilitiesOf(chains, action.chain).accepts) return 'on';
      const way = walk(chains, action.chain, packet);
      return way === 'accepted' || way === 'unsure' ? 'unsure' : 'on';
    }
    default:
      return 'unsure';
  }
}

function certainly(
  chains: Chains,
  rule: WalkedRule,
  action: Action,
  packet: FirstPacket,
): Way | 'on' | 'return' {
  switch (action.kind) {
    case 'drop':
    case 'reject':
    case 'redirect':
      return { what: action.kind, rule };
    case 'untrack':
      return packet.awaitsTranslation ? { what: 'untrack', rule } : 'on';
    case 'accept':
      return 'accepted';
    case 'return':
      return 'return';
    case 'goto':
      return walk(chains, action.chain, packet);
    case 'jump': {
      const way = walk(chains, action.chain, packet);
      return way === 'through' ? 'on' : way;
    }
    default:
      return 'unsure';
  }
}

/** What a chain does with some packet, with the chains that it leads to. */
interface Abilities {
  readonly accepts: boolean;
  readonly stops: boolean;
}

const known = new WeakMap<Chains, Map<string, Abilities>>();
const none: Abilities = { accepts: false, stops: false };

/** Each chain is read once, however many jumps lead to it. The kernel has no circles of jumps. */
function abilitiesOf(chains: Chains, name: string): Abilities {
  const ofChains = known.get(chains) ?? new Map<string, Abilities>();
  known.set(chains, ofChains);
  const before = ofChains.get(name);
  if (before !== undefined) return before;
  ofChains.set(name, none);
  const all = (chains.get(name) ?? []).map(({ action }) => abilitiesOfAction(chains, action));
  const abilities = {
    accepts: all.some(({ accepts }) => accepts),
    stops: all.some(({ stops }) => stops),
  };
  ofChains.set(name, abilities);
  return abilities;
}

function abilitiesOfAction(chains: Chains, action: Action): Abilities {
  switch (action.kind) {
    case 'accept':
    case 'unsure':
      return { accepts: true, stops: false };
    case 'drop':
    case 'reject':
    case 'redirect':
    case 'untrack':
      return { accepts: false, stops: true };
    case 'goto':
      return { accepts: true, stops: canStop(chains, action.chain) };
    case 'jump':
      return abilitiesOf(chains, action.chain);
    default:
      return none;
  }
}

/** Whether any packet can end there. */
export function canStop(chains: Chains, name: string): boolean {
  return abilitiesOf(chains, name).stops;
}

function truthOf(conditions: readonly Condition[], packet: FirstPacket): boolean | undefined {
  let all: boolean | undefined = true;
  for (const condition of conditions) {
    const one = condition(packet);
    if (one === false) return false;
    if (one === undefined) all = undefined;
  }
  return all;
}

/**
 * What the tables of failure detection hold, one for each family: sets of the endpoints that are
 * followed, whose elements count, and the rules that look packets up in them. Packets are counted
 * by their own addresses, so that it does not matter how they were translated.
 */
import { baseChain, type ChainDefinition } from '../kernel/nft/chain.ts';
import { NF_INET, NFPROTO } from '../kernel/nft/constants.ts';
import type { OwnContent, OwnTableName } from '../kernel/nft/own-table.ts';
import {
  daddr,
  dport,
  inSet,
  jump,
  l4proto,
  matchInterface,
  matchOutputInterface,
  matchProtocol,
  matchRefusal,
  matchSyn,
  matchSynAck,
  saddr,
  sport,
} from '../kernel/nft/rule.ts';
import { fieldsOfSet, type SetDefinition } from '../kernel/nft/sets.ts';
import { addressType } from '../modes/nft-table/parts.ts';
import type { Family } from '../net/address.ts';

const tableName = 'fairlead-failure-detection';

export function ownTable(family: Family): OwnTableName {
  const comment = 'answers of endpoints, by Fairlead';
  return { family: NFPROTO[family], table: tableName, comment };
}

/** What the elements of each set count. */
export const counts = ['attempts', 'resets', 'answers'] as const;
export type Counted = (typeof counts)[number];

/** The sets in the order of reading: answers last, so that no answer to an attempt is missed. */
export function setsOf(family: Family): Readonly<Record<Counted, SetDefinition>> {
  const set = (name: Counted, comment: string): SetDefinition => ({
    name,
    key: [addressType(family), 'inet_proto', 'inet_service'],
    data: undefined,
    flags: 0,
    size: 0,
    isCounted: true,
    comment,
  });
  return {
    attempts: set('attempts', 'what is sent to endpoints'),
    resets: set('resets', 'what endpoints refuse'),
    answers: set('answers', 'what endpoints answer'),
  };
}

/** In front of the rules of others, which may drop a packet at the same hook. */
const priority = -10;

/**
 * The target of a jump comes first. A packet from one address of the node to another passes all
 * hooks: it is counted where it is delivered, and its answer where it is sent.
 */
function chainsOf(family: Family): readonly ChainDefinition[] {
  const to = [daddr(family), l4proto, dport];
  const from = [saddr(family), l4proto, sport];
  const requests: ChainDefinition = {
    name: 'to-endpoints',
    base: undefined,
    rules: [
      [matchProtocol('TCP'), matchSyn, inSet(to, 'attempts')],
      [matchProtocol('UDP'), inSet(to, 'attempts')],
    ],
  };
  const replies: ChainDefinition = {
    name: 'from-endpoints',
    base: undefined,
    rules: [
      [matchProtocol('TCP'), matchSynAck, inSet(from, 'answers')],
      [matchProtocol('TCP'), matchRefusal, inSet(from, 'resets')],
      [matchProtocol('UDP'), inSet(from, 'answers')],
    ],
  };
  const hook = (name: string, number: number, ...rule: ChainDefinition['rules'][number]) => ({
    name,
    base: baseChain('filter', number, priority),
    rules: [rule],
  });
  const count = { to: jump(requests.name), from: jump(replies.name) };
  return [
    requests,
    replies,
    hook('prerouting', NF_INET.PRE_ROUTING, matchInterface('!=', 'lo'), count.from),
    hook('input', NF_INET.LOCAL_IN, count.to),
    hook('output', NF_INET.LOCAL_OUT, count.from),
    hook('postrouting', NF_INET.POST_ROUTING, matchOutputInterface('!=', 'lo'), count.to),
  ];
}

function contentOf(family: Family): OwnContent {
  const sets = Object.values(setsOf(family)).map((set) => fieldsOfSet(family, tableName, set));
  return { chains: chainsOf(family), sets };
}

export const contents = {
  IPv4: contentOf('IPv4'),
  IPv6: contentOf('IPv6'),
} as const satisfies Record<Family, OwnContent>;

/**
 * The table that refuses connections beyond the limits of Services. It is independent of the mode,
 * which translates behind it: its chains of type nat see the first packet of each connection.
 */
import { baseChain, type ChainDefinition, type Rule } from '../kernel/nft/chain.ts';
import { NF_INET, NFPROTO_INET, NFT_SET } from '../kernel/nft/constants.ts';
import type { OwnContent, OwnTableName, Part } from '../kernel/nft/own-table.ts';
import {
  addToSet,
  daddr,
  dport,
  goto,
  jump,
  l4proto,
  matchCIDR,
  matchFamily,
  matchLocalAddress,
  matchProtocol,
  rejectAny,
  resetTCP,
  returnToCaller,
  saddr,
  sport,
  stateNew,
  updateSet,
  vmap,
} from '../kernel/nft/rule.ts';
import { fieldsOfSet, type SetDefinition } from '../kernel/nft/sets.ts';
import { connectionsOver, rateOver } from '../kernel/nft/stateful.ts';
import { type Family, families } from '../net/address.ts';
import { loopbackBlocks } from '../net/special-address.ts';
import { type LimitReason, type Limits, limitReasons } from '../state/limits.ts';

export const ownTable: OwnTableName = {
  family: NFPROTO_INET,
  table: 'fairlead-limits',
  comment: 'limits of connections to Services, by Fairlead',
};

/** Before the rules of any mode: the first chain that translates a connection ends the others. */
const priority = -105;

const addressTypes = { IPv4: 'ipv4_addr', IPv6: 'ipv6_addr' } as const;
const destination = ['inet_proto', 'inet_service'] as const;
const set = { data: undefined, flags: 0, size: 0 } as const;
const verdicts = { data: 'verdict', flags: NFT_SET.MAP, size: 0 } as const;

/** Frontends of Services with limits, each with the chain of its Service. */
export const frontendMaps = {
  IPv4: {
    ...{ name: 'services-ipv4', key: ['ipv4_addr', ...destination], ...verdicts },
    comment: 'frontend : limits',
  },
  IPv6: {
    ...{ name: 'services-ipv6', key: ['ipv6_addr', ...destination], ...verdicts },
    comment: 'frontend : limits',
  },
  nodePort: {
    ...{ name: 'nodeports', key: destination, ...verdicts },
    comment: 'node port : limits',
  },
} as const satisfies Record<Family | 'nodePort', SetDefinition>;

/** After this time without a refusal, a client is forgotten. */
const forgetAfterMs = 120_000;
/** The most pairs of a frontend and a client whose refusals are counted. */
const refusedMax = 1024;

/** Counts the refusals of a client at a frontend, for one reason. */
export function refusedSet(reason: LimitReason, family: Family): SetDefinition {
  const address = addressTypes[family];
  return {
    ...{
      ...set,
      name: `${reason}-${family.toLowerCase()}`,
      key: [address, ...destination, address],
    },
    ...{ flags: NFT_SET.EVAL | NFT_SET.TIMEOUT, size: refusedMax, timeoutMs: forgetAfterMs },
    ...{ isCounted: true, comment: 'refused: frontend . client' },
  };
}

function fieldsOf(definition: SetDefinition) {
  return { ...fieldsOfSet('IPv4', ownTable.table, definition), family: ownTable.family };
}

function chain(name: string, rules: readonly Rule[], base?: ChainDefinition['base']) {
  return { name, base, rules };
}

const port = [l4proto, dport];
const overChain = (reason: LimitReason): string => `over-${reason}`;

/** Counts refusals, where the set has room, and refuses. */
function refusing(reason: LimitReason): ChainDefinition {
  const counting = families.map((family): Rule => {
    const key = [daddr(family), ...port, saddr(family)];
    return [matchFamily(family), updateSet(refusedSet(reason, family).name, key)];
  });
  return chain(overChain(reason), [...counting, [goto('refuse')]]);
}

/** Has the kernel track connections, which chains of type nat alone do not. */
const toCheck: readonly Rule[] = [[stateNew, jump('check')]];

/** All but the parts of Services. Node ports on loopback addresses have no limits. */
export const content: OwnContent = {
  sets: [
    ...Object.values(frontendMaps),
    ...limitReasons.flatMap((reason) => families.map((family) => refusedSet(reason, family))),
  ].map(fieldsOf),
  chains: [
    chain('refuse', [[matchProtocol('TCP'), resetTCP], [rejectAny]]),
    ...limitReasons.map(refusing),
    chain('check', [
      ...families.map((family): Rule => {
        return [matchFamily(family), vmap([daddr(family), ...port], frontendMaps[family].name)];
      }),
      ...families.map((family): Rule => {
        const outside = matchCIDR('daddr', '!=', loopbackBlocks[family]);
        const local = matchLocalAddress('daddr');
        return [matchFamily(family), outside, local, vmap(port, frontendMaps.nodePort.name)];
      }),
    ]),
    chain('prerouting', toCheck, baseChain('nat', NF_INET.PRE_ROUTING, priority)),
    chain('output', toCheck, baseChain('nat', NF_INET.LOCAL_OUT, priority)),
  ],
};

/** A client's connections are in a list that the kernel walks: more of them than this are refused. */
const ratePerClientMost = 500;
/** A client's rate is forgotten after this time without a connection. */
const rateForgottenMs = 10_000;

/**
 * What a Service needs, in the order in which packets meet it: what costs least comes first. A full
 * set of clients takes no more of them: those have no limits of their own.
 *
 * Connections of a Service are elements of a set of that size. To add or to refuse one costs the
 * same whatever their number, while the kernel walks a list of `ct count` for each. Once a second
 * it removes those that have ended.
 */
export function partOf(service: string, limits: Limits, of: readonly Family[]): Part {
  const values = limitReasons.map((reason) => limits[reason] ?? 0);
  const name = ['limit', ...of, ...values, service].join('-');
  const sets: SetDefinition[] = [];
  const rules: Rule[] = [];
  const forFamily = (
    reason: LimitReason,
    family: Family,
    key: SetDefinition['key'],
    more: Partial<SetDefinition>,
  ): string => {
    const definition = { ...set, name: `${reason}-${family}-${name}`, key, comment: '', ...more };
    sets.push(definition);
    return definition.name;
  };
  const perClient = (reason: LimitReason, more: Partial<SetDefinition>): void => {
    for (const family of of) {
      const clients = forFamily(reason, family, [addressTypes[family]], more);
      const over = goto(overChain(reason));
      rules.push([matchFamily(family), updateSet(clients, [saddr(family)]), over]);
    }
  };
  const {
    max_connections: most,
    max_connections_per_client: mostPerClient,
    new_connections_per_second: rate,
    new_connections_per_second_per_client: askedRatePerClient,
  } = limits;
  const ratePerClient =
    mostPerClient === undefined
      ? askedRatePerClient
      : Math.min(askedRatePerClient ?? ratePerClientMost, ratePerClientMost);
  if (rate !== undefined) {
    rules.push([rateOver(rate), goto(overChain('new_connections_per_second'))]);
  }
  if (ratePerClient !== undefined) {
    const flags = NFT_SET.EVAL | NFT_SET.TIMEOUT;
    const statement = rateOver(ratePerClient);
    const more = { flags, statement, timeoutMs: rateForgottenMs };
    perClient('new_connections_per_second_per_client', more);
  }
  if (mostPerClient !== undefined) {
    const statement = connectionsOver(mostPerClient);
    perClient('max_connections_per_client', { flags: NFT_SET.EVAL, statement });
  }
  if (most !== undefined) {
    for (const family of of) {
      const address = addressTypes[family];
      const key = [address, ...destination, address, 'inet_service'] as const;
      // It is always true: a connection is more than none. With it, the element ends with its own.
      const more = { flags: NFT_SET.EVAL, size: most, statement: connectionsOver(0) };
      const connections = forFamily('max_connections', family, key, more);
      const own = [daddr(family), ...port, saddr(family), sport];
      const add = addToSet(connections, own);
      rules.push([matchFamily(family), add, returnToCaller]);
    }
    rules.push([goto(overChain('max_connections'))]);
  }
  return { chain: chain(name, rules), sets: sets.map(fieldsOf) };
}

/**
 * The table that refuses connections beyond the limits of Services. It is independent of the mode,
 * which translates behind it: its chains of type nat see the first packet of each connection.
 */
import { baseChain, type ChainDefinition, type Rule } from '../kernel/nft/chain.ts';
import { IPPROTO, NF_INET, NFPROTO_INET, NFT_SET } from '../kernel/nft/constants.ts';
import type { OwnContent, OwnTableName, Part } from '../kernel/nft/own-table.ts';
import { matchPorts, noPort } from '../kernel/nft/ports.ts';
import {
  addToSet,
  daddr,
  dport,
  goto,
  inSet,
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
  sportBits,
  stateNew,
  updateSet,
  vmap,
} from '../kernel/nft/rule.ts';
import { fieldsOfSet, type SetDefinition } from '../kernel/nft/sets.ts';
import { rateOver } from '../kernel/nft/stateful.ts';
import { type Family, families } from '../net/address.ts';
import { protocols } from '../net/protocol.ts';
import { loopbackBlocks } from '../net/special-address.ts';
import {
  type LimitReason,
  type Limits,
  limitReasons,
  type RefusedReason,
} from '../state/limits.ts';
import type { Frontend } from '../state/types.ts';
import type { Bound, Bounds } from './bounds.ts';

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

/** Without its elements nothing is refused: a process that has gone does not renew them. */
export const lease = {
  ...{ ...set, name: 'lease', key: ['inet_proto'], comment: 'protocols whose limits are in force' },
  ...{ flags: NFT_SET.TIMEOUT, timeoutMs: 600_000 },
} as const satisfies SetDefinition;
export const leaseKeys = protocols.map((one) => String.fromCharCode(IPPROTO[one]));

/** After this time without a refusal, a client is forgotten. */
const forgetAfterMs = 120_000;
/** The most pairs of a frontend and a client whose refusals are counted. */
const refusedMax = 1024;

/** Counts the refusals of a client at a frontend, for one reason. */
export function refusedSet(reason: RefusedReason, family: Family): SetDefinition {
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
const overChain = (reason: RefusedReason): string => `over-${reason}`;

/** Counts refusals, where the set has room, and refuses. */
function refusing(reason: RefusedReason): ChainDefinition {
  const counting = families.map((family): Rule => {
    const key = [daddr(family), ...port, saddr(family)];
    return [matchFamily(family), updateSet(refusedSet(reason, family).name, key)];
  });
  return chain(overChain(reason), [...counting, [goto('refuse')]]);
}

/** Has the kernel track connections, which chains of type nat alone do not. */
const toCheck: readonly Rule[] = [[stateNew, inSet([l4proto], lease.name), jump('check')]];

/** Reasons of refusals that a table with these bounds can have. */
export function reasonsWith(bounds: Bounds | undefined): readonly RefusedReason[] {
  const { client, namespace } = bounds ?? {};
  return [
    ...limitReasons,
    ...(client === undefined ? [] : (['client_limit'] as const)),
    ...(namespace === undefined ? [] : (['namespace_limit'] as const)),
  ];
}

/**
 * All but the parts of Services and namespaces. Node ports on loopback addresses have no limits.
 * Undefined: settings bound nothing.
 */
export function contentWith(bounds: Bounds | undefined): OwnContent {
  const reasons = reasonsWith(bounds);
  const { client, exempt = [] } = bounds ?? {};
  const ofClients = client && clientPart(client, exempt);
  return {
    sets: [
      ...[
        lease,
        ...Object.values(frontendMaps),
        ...reasons.flatMap((reason) => families.map((family) => refusedSet(reason, family))),
      ].map(fieldsOf),
      ...(ofClients?.sets ?? []),
    ],
    chains: [
      chain('refuse', [[matchProtocol('TCP'), resetTCP], [rejectAny]]),
      ...reasons.map(refusing),
      ...(ofClients === undefined ? [] : [ofClients.chain]),
      chain('check', [
        // Ports that Services list come before ranges, which have no limits of their own.
        ...(bounds === undefined ? [port] : [port, [l4proto, noPort]]).flatMap((at) =>
          families.map((family): Rule => {
            return [matchFamily(family), vmap([daddr(family), ...at], frontendMaps[family].name)];
          }),
        ),
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
}

/** The kernel walks a list of as many connections, in which those of a client or namespace are. */
const listMost = 64;
/** After this time without a connection as many may come together as at first. */
const boundForgottenMs = 120_000;

/**
 * Counts the open connections of a client or a namespace, in several lists: which one, the client's
 * port says. Its lowest bit is left out, since Linux gives clients ports of one parity.
 */
function listsOf(open: number) {
  const lists = 2 ** Math.ceil(Math.log2(Math.max(1, open / listMost)));
  return { bits: sportBits((lists - 1) << 1), most: Math.max(1, Math.floor(open / lists)) };
}

/** Bounds each client address but the node's, which its own programs and their probes have. */
function clientPart(bound: Bound, exempt: Bounds['exempt']): Part {
  const [over, { bits, most }] = [goto(overChain('client_limit')), listsOf(bound.open)];
  const definitions = families.map((family) => {
    const [address, name] = [addressTypes[family], family.toLowerCase()];
    const rate = {
      ...{ ...set, name: `new-by-client-${name}`, key: [address], comment: 'client : rate' },
      ...{ flags: NFT_SET.EVAL | NFT_SET.TIMEOUT, timeoutMs: boundForgottenMs },
      statement: rateOver(bound.rate, bound.burst, bound.per),
    };
    const key = [address, 'inet_service'] as const;
    const of = { name: `open-by-client-${name}`, comment: 'client : connections' };
    const open = { ...set, ...of, key, flags: NFT_SET.EVAL };
    return { family, rate, open };
  });
  return {
    sets: definitions.flatMap(({ open, rate }) => [rate, open].map(fieldsOf)),
    chain: chain('client', [
      [matchLocalAddress('saddr'), returnToCaller],
      ...exempt.map((block): Rule => {
        return [matchFamily(block.address.family), matchCIDR('saddr', '==', block), returnToCaller];
      }),
      ...definitions.flatMap(({ family, open, rate }): Rule[] => [
        [matchFamily(family), updateSet(rate.name, [saddr(family)]), over],
        [matchFamily(family), updateSet(open.name, [saddr(family), bits], most), over],
      ]),
    ]),
  };
}

/** Where packets to the Services of a namespace go: what bounds clients comes first. */
export function partOfNamespace(name: string, { client, namespace }: Bounds): Part {
  const rules: Rule[] = client === undefined ? [] : [[jump('client')]];
  if (namespace === undefined) return { chain: chain('any-namespace', rules), sets: [] };
  const { burst, open, per, rate } = namespace;
  const own = ['namespace', open, rate, per, client === undefined ? 0 : 1, name].join('-');
  const { bits, most } = listsOf(open);
  const of = { name: `open-${own}`, key: ['inet_service'], comment: '' } as const;
  const connections = { ...set, ...of, flags: NFT_SET.EVAL };
  const over = goto(overChain('namespace_limit'));
  rules.push([rateOver(rate, burst, per), over]);
  rules.push([updateSet(connections.name, [bits], most), over]);
  return { chain: chain(own, rules), sets: [fieldsOf(connections)] };
}

/** Where packets to a range of ports go: to what the part does, if they are to one of its ports. */
export function partOfRange({ port: first, lastPort }: Frontend, { chain: to }: Part): Part {
  const rule: Rule = [matchPorts(first, lastPort!), goto(to.name)];
  return { chain: chain(`ports-${first}-${lastPort}-${to.name}`, [rule]), sets: [] };
}

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
export function partOf(
  service: string,
  limits: Limits,
  of: readonly Family[],
  bounded?: Part,
): Part {
  const values = limitReasons.map((reason) => limits[reason] ?? 0);
  const first = bounded === undefined ? [] : ['bounded'];
  const name = [...first, 'limit', ...of, ...values, service].join('-');
  const sets: SetDefinition[] = [];
  const rules: Rule[] = bounded === undefined ? [] : [[jump(bounded.chain.name)]];
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
  const perClient = (reason: LimitReason, more: Partial<SetDefinition>, open?: number): void => {
    for (const family of of) {
      const clients = forFamily(reason, family, [addressTypes[family]], more);
      const over = goto(overChain(reason));
      rules.push([matchFamily(family), updateSet(clients, [saddr(family)], open), over]);
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
    perClient('max_connections_per_client', { flags: NFT_SET.EVAL }, mostPerClient);
  }
  if (most !== undefined) {
    for (const family of of) {
      const address = addressTypes[family];
      const key = [address, ...destination, address, 'inet_service'] as const;
      const more = { flags: NFT_SET.EVAL, size: most };
      const connections = forFamily('max_connections', family, key, more);
      const own = [daddr(family), ...port, saddr(family), sport];
      // It is always true: a connection is more than none. With it, the element ends with its own.
      const add = addToSet(connections, own, 0);
      rules.push([matchFamily(family), add, returnToCaller]);
    }
    rules.push([goto(overChain('max_connections'))]);
  }
  return { chain: chain(name, rules), sets: sets.map(fieldsOf) };
}

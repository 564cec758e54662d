/**
 * The content of the fast path's table: a flowtable, and the rules that move connections there.
 * Only the elements for Services that opt out depend on Services.
 */
import { baseChain, type ChainDefinition } from '../kernel/nft/chain.ts';
import {
  NF_INET,
  NFPROTO_INET,
  NFT_FLOWTABLE_COUNTER,
  type NFTypeName,
} from '../kernel/nft/constants.ts';
import type { Elements, OwnContent, OwnTableName } from '../kernel/nft/own-table.ts';
import {
  flowAdd,
  goto,
  inputInterface,
  inSet,
  interfaceBytes,
  l4proto,
  originalDaddr,
  originalDport,
  outputInterface,
  packetsAbove,
  returnToCaller,
  statusDNAT,
  withoutIPsec,
} from '../kernel/nft/rule.ts';
import { fieldsOfSet, type SetDefinition } from '../kernel/nft/sets.ts';
import { binary } from '../modes/elements.ts';
import type { Excluded } from './excluded.ts';

export const tableName = 'fairlead-fast-path';
const flowtableName = 'services';

export const inTable = { family: NFPROTO_INET, table: tableName } as const;
export const ownTable: OwnTableName = {
  ...inTable,
  comment: 'established connections to Services, by Fairlead',
};

/** `flags`: NFT_FLOWTABLE_*. The priority at ingress is that of nft's word `filter`. */
export const flowtable = {
  ...inTable,
  flowtable: flowtableName,
  priority: 0,
  flags: NFT_FLOWTABLE_COUNTER,
} as const;

/**
 * Behind all others that filter forwarded packets, so that a connection is moved only by a packet
 * that no other chain dropped.
 */
const priority = 200;

function frontends(name: string, ...key: readonly NFTypeName[]): SetDefinition {
  const comment = 'frontends of Services that opt out';
  return { name, key, data: undefined, flags: 0, size: 0, comment };
}

/** The devices of the flowtable. */
export const deviceSet: SetDefinition = {
  ...frontends('with-flowtable', 'ifname'),
  comment: 'devices of the flowtable',
};

const excludedSets = {
  IPv4: frontends('excluded-ipv4', 'ipv4_addr', 'inet_proto', 'inet_service'),
  IPv6: frontends('excluded-ipv6', 'ipv6_addr', 'inet_proto', 'inet_service'),
  nodePort: frontends('excluded-nodeports', 'inet_proto', 'inet_service'),
} as const satisfies Record<keyof Excluded, SetDefinition>;

/**
 * `packets`: a connection is moved after this number, both directions together. The target of a
 * jump comes first. Packets of other protocols than TCP and UDP end the last rule.
 *
 * A connection that is moved leaves the rules in both directions, as an entry works at each of its
 * two devices that the flowtable has: so one that uses any other device stays with the rules.
 */
function chains(packets: number): readonly ChainDefinition[] {
  const port = [l4proto, originalDport];
  const { IPv4, IPv6, nodePort } = excludedSets;
  const moving: ChainDefinition = {
    name: 'move',
    base: undefined,
    rules: [
      [inSet([inputInterface], deviceSet.name, '!='), returnToCaller],
      [inSet([outputInterface], deviceSet.name, '!='), returnToCaller],
      [inSet([originalDaddr('IPv4'), ...port], IPv4.name), returnToCaller],
      [inSet([originalDaddr('IPv6'), ...port], IPv6.name), returnToCaller],
      [inSet(port, nodePort.name), returnToCaller],
      [flowAdd(flowtableName)],
    ],
  };
  const forward: ChainDefinition = {
    name: 'forward',
    base: baseChain('filter', NF_INET.FORWARD, priority),
    rules: [[statusDNAT, packetsAbove(packets), withoutIPsec, goto(moving.name)]],
  };
  return [moving, forward];
}

export function content(packets: number): OwnContent {
  const sets = [deviceSet, ...Object.values(excludedSets)].map((one) => {
    return { ...fieldsOfSet('IPv4', tableName, one), family: NFPROTO_INET };
  });
  return { chains: chains(packets), sets, flowtable };
}

export function elementsOf(devices: ReadonlySet<string>, excluded: Excluded): Elements {
  const { IPv4, IPv6, nodePort } = excludedSets;
  const names = new Set([...devices].map((name) => binary(interfaceBytes(name))));
  const keys = {
    [deviceSet.name]: names,
    [IPv4.name]: excluded.IPv4,
    [IPv6.name]: excluded.IPv6,
    [nodePort.name]: excluded.nodePort,
  };
  return { keys, devices };
}

/** Whether frontends are excluded that were not. */
export function excludesMore(inKernel: Elements, desired: Elements): boolean {
  return Object.values(excludedSets).some(({ name }) => {
    return [...(desired.keys[name] ?? [])].some((key) => inKernel.keys[name]?.has(key) !== true);
  });
}

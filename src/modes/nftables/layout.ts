/**
 * The sets and maps of the constant-object layout (README.md beside this file). Their number does
 * not depend on Services or endpoints; only their elements do.
 */
import type { NFTypeName } from '../../kernel/nft/constants.ts';
import type { SetDefinition } from '../../kernel/nft/sets.ts';
import type { Family } from '../../net/address.ts';
import type { TableLayout } from '../nft-table/layout.ts';
import { addressType, commonSets, map, set } from '../nft-table/parts.ts';
import { SharedElements } from '../nft-table/shared.ts';

export const tableName = 'fairlead';
export const tableComment = 'Services of Kubernetes, kept by fairlead';

/**
 * The pools of Services are spread over this many maps: the kernel walks a map from its start for
 * each part of a dump (nft_rhash_walk), so that reading one takes time that grows with its square.
 */
export const shards = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'] as const;
export type Shard = (typeof shards)[number];

const endpointMaps = shards.map((shard) => `endpoints-${shard}` as const);

/**
 * A rule reads the port that a client connected to for one protocol only (nft takes it no other
 * way), and the kernel validates what each rule may lead to: so each protocol has a map of its own.
 * Node ports have one: of keys that are a port and no more nft 1.0.6 can't list the elements.
 */
export const learnMaps = { TCP: 'learn-tcp', UDP: 'learn-udp', SCTP: 'learn-sctp' } as const;

export const setNames = [
  'services',
  ...endpointMaps,
  'local-endpoints',
  'no-endpoint-services',
  'nodeports',
  'nodeport-endpoints',
  'nodeport-local-endpoints',
  'no-endpoint-nodeports',
  'nodeport-ips',
  'cluster-ips',
  'service-cidrs',
  'hairpin',
  'firewall-ips',
  'self-clients',
  'sticky-services',
  'sticky-nodeports',
  ...Object.values(learnMaps),
  'learn-nodeports',
] as const;
export type SetName = (typeof setNames)[number];

export type SetDefinitions = Readonly<Record<SetName, SetDefinition>>;

/** Sets whose elements Forwardings share. */
export const sharedElements = new SharedElements(['cluster-ips', 'hairpin', 'self-clients']);
export type SharedSet = (typeof sharedElements)['sets'][number];

export function tableLayout(family: Family): TableLayout<SetName> {
  return { family, table: tableName, comment: tableComment, sets: setDefinitions(family) };
}

/** The sets and maps of one family. `index` numbers a pool's endpoints, 4 bytes in host order. */
export function setDefinitions(family: Family): SetDefinitions {
  const address = addressType(family);
  const nodePort = ['inet_proto', 'inet_service'] as const;
  const frontend = [address, ...nodePort] as const;
  const endpoint = [address, 'inet_service'] as const;
  // nft prints an index typed `mark` without user data; `integer` would abort its listing.
  const index = 'mark';
  return {
    services: map('services', frontend, 'verdict', 'frontend : treatment'),
    ...mapsOf(endpointMaps, [...frontend, index], endpoint, 'frontend . index : endpoint'),
    'local-endpoints': map(
      'local-endpoints',
      [...frontend, index],
      endpoint,
      'frontend . index : endpoint of this node',
    ),
    'no-endpoint-services': map(
      'no-endpoint-services',
      frontend,
      'verdict',
      'frontends without endpoints: reject or drop',
    ),
    nodeports: map('nodeports', nodePort, 'verdict', 'node port : treatment'),
    'nodeport-endpoints': map(
      'nodeport-endpoints',
      [...nodePort, index],
      endpoint,
      'node port . index : endpoint',
    ),
    'nodeport-local-endpoints': map(
      'nodeport-local-endpoints',
      [...nodePort, index],
      endpoint,
      'node port . index : endpoint of this node',
    ),
    'no-endpoint-nodeports': map(
      'no-endpoint-nodeports',
      nodePort,
      'verdict',
      'node ports without endpoints: reject or drop',
    ),
    'nodeport-ips': set('nodeport-ips', [address], 'addresses that accept node ports'),
    'cluster-ips': set('cluster-ips', [address], 'ClusterIPs in use'),
    ...commonSets(family),
    'sticky-services': map(
      'sticky-services',
      frontend,
      'verdict',
      'frontend with session affinity : where its clients went',
    ),
    'sticky-nodeports': map(
      'sticky-nodeports',
      nodePort,
      'verdict',
      'node port with session affinity : where its clients went',
    ),
    ...mapsOf(Object.values(learnMaps), endpoint, 'verdict', 'frontend : what to remember'),
    'learn-nodeports': map('learn-nodeports', nodePort, 'verdict', 'node port : what to remember'),
  };
}

function mapsOf<Name extends SetName>(
  names: readonly Name[],
  key: readonly NFTypeName[],
  data: readonly NFTypeName[] | 'verdict',
  comment: string,
): Record<Name, SetDefinition> {
  const maps = names.map((name) => [name, map(name, key, data, comment)]);
  return Object.fromEntries(maps) as Record<Name, SetDefinition>;
}

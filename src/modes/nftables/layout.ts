/**
 * The sets and maps of the constant-object layout (README.md beside this file). Their number does
 * not depend on Services or endpoints; only their elements do.
 */
import { NFT_SET } from '../../kernel/nft/constants.ts';
import { fieldsOfSet, type SetDefinition, type SetFields } from '../../kernel/nft/sets.ts';
import type { Family } from '../../state/address.ts';
import { addressType, commonSets, map, set } from '../table-parts.ts';

export const tableName = 'fairlead';
export const tableComment = 'Services of Kubernetes, kept by fairlead';

/**
 * Clients that session affinity remembers at a time, all frontends of a family together. The
 * kernel gives a set that packets fill 65,535 when it is not told otherwise (nft_dynset_new).
 */
const affinityMax = 262_144;

/**
 * The pools of Services are spread over this many maps: the kernel walks a map from its start for
 * each part of a dump (nft_rhash_walk), so that reading one takes time that grows with its square.
 */
export const shards = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'] as const;
export type Shard = (typeof shards)[number];

const endpointMaps = shards.map((shard) => `endpoints-${shard}` as const);

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
  'affinity',
  'local-affinity',
  'learn',
  'learn-nodeports',
] as const;
export type SetName = (typeof setNames)[number];

/** Maps whose elements come from packets, not from us: which endpoint a client got. */
export const affinitySets = ['affinity', 'local-affinity'] as const satisfies readonly SetName[];
export type AffinitySet = (typeof affinitySets)[number];

export function isAffinitySet(name: SetName): name is AffinitySet {
  return affinitySets.some((each) => each === name);
}

export type SetDefinitions = Readonly<Record<SetName, SetDefinition>>;

/** The sets and maps of one family. `index` numbers a pool's endpoints, 4 bytes in host order. */
export function setDefinitions(family: Family): SetDefinitions {
  const address = addressType(family);
  const nodePort = ['inet_proto', 'inet_service'] as const;
  const frontend = [address, ...nodePort] as const;
  const endpoint = [address, 'inet_service'] as const;
  // Filled by packets (nft calls it dynamic), emptied by time.
  const remembered = (name: SetName, comment: string): SetDefinition => ({
    ...map(name, [address, ...frontend], endpoint, comment),
    flags: NFT_SET.MAP | NFT_SET.EVAL | NFT_SET.TIMEOUT,
    size: affinityMax,
  });
  // nft prints an index typed `mark` without user data; `integer` would abort its listing.
  const index = 'mark';
  return {
    services: map('services', frontend, 'verdict', 'frontend : treatment'),
    ...(Object.fromEntries(
      endpointMaps.map((name) => [
        name,
        map(name, [...frontend, index], endpoint, 'frontend . index : endpoint'),
      ]),
    ) as Record<(typeof endpointMaps)[number], SetDefinition>),
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
    affinity: remembered('affinity', 'client . frontend : endpoint'),
    'local-affinity': remembered('local-affinity', 'client . frontend : endpoint of this node'),
    learn: map('learn', frontend, 'verdict', 'frontend with session affinity : timeout'),
    'learn-nodeports': map(
      'learn-nodeports',
      nodePort,
      'verdict',
      'node port with session affinity : timeout',
    ),
  };
}

/** The fields of a `setAdd` op for `definition`. */
export function setFields(family: Family, definition: SetDefinition): SetFields {
  return fieldsOfSet(family, tableName, definition);
}

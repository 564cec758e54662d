/**
 * The sets and maps of the constant-object layout (README.md in this folder). Only the number of
 * their elements depends on Services and endpoints.
 */
import type { NFTypeName } from '../../kernel/nft/constants.ts';
import type { Family } from '../../net/address.ts';
import { byName, setsOf, type TableLayout } from '../nft-table/layout.ts';
import { addressType, commonSets, map, set } from '../nft-table/parts.ts';
import { countingSet, refusalSets } from '../nft-table/refusals.ts';
import { SharedElements } from '../nft-table/shared.ts';

export const tableName = 'fairlead';

/** The table of a proxy with this name; empty = it has none. */
export function tableOf(proxyName: string): string {
  return proxyName === '' ? tableName : `${tableName}.${proxyName}`;
}

export const tableComment = 'Services of Kubernetes, kept by fairlead';

/**
 * The pools of Services are spread over these maps. The kernel walks a map from its start for each
 * part of a dump (nft_rhash_walk), so that the time to read one grows with the square of its size.
 */
export const shards = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'] as const;
export type Shard = (typeof shards)[number];

const endpointMaps = shards.map((shard) => `endpoints-${shard}` as const);

/**
 * Each protocol has a separate map: nft lets a rule read the original port for one named protocol
 * only, and the kernel validates what each rule may lead to. Node ports have one map for all
 * protocols, because nft 1.0.6 cannot list elements whose key is nothing but a port.
 */
export const learnMaps = { TCP: 'learn-tcp', UDP: 'learn-udp', SCTP: 'learn-sctp' } as const;

/** Sets whose elements Forwardings share, or the environment makes. */
export const sharedElements = new SharedElements([
  'cluster-ips',
  'hairpin',
  'self-clients',
  'nodeport-ips',
]);
export type SharedSet = (typeof sharedElements)['sets'][number];

/** `countsTraffic`: with the sets that count. */
export function tableLayout(
  family: Family,
  countsTraffic = false,
  table = tableName,
): TableLayout<SetName> {
  const sets = setsOf(setDefinitions(family), countsTraffic);
  return { family, table, comment: tableComment, sets };
}

/** The sets and maps of one family. `index` numbers a pool's endpoints, 4 bytes in host order. */
export function setDefinitions(family: Family) {
  const address = addressType(family);
  const nodePort = ['inet_proto', 'inet_service'] as const;
  const frontend = [address, ...nodePort] as const;
  const endpoint = [address, 'inet_service'] as const;
  // nft prints an index typed `mark` without user data; `integer` would abort its listing.
  const index = 'mark';
  const [pool, nodePortPool] = [[...frontend, index] as const, [...nodePort, index] as const];
  return byName(
    commented('services', frontend, 'frontend : treatment'),
    // The kernel visits all verdicts of a map for each rule that looks one up there.
    commented('ranges', frontend, 'range of ports : treatment'),
    ...endpointMaps.map((name) => map(name, pool, endpoint, 'frontend . index : endpoint')),
    map('local-endpoints', pool, endpoint, 'frontend . index : endpoint of this node'),
    commented('no-endpoint-services', frontend, 'frontends without endpoints: reject or drop'),
    commented('no-endpoint-ranges', frontend, 'ranges of ports without endpoints: reject or drop'),
    commented('nodeports', nodePort, 'node port : treatment'),
    map('firewall-nodeports', nodePort, 'verdict', 'node port : who may connect'),
    map('nodeport-endpoints', nodePortPool, endpoint, 'node port . index : endpoint'),
    map(
      'nodeport-local-endpoints',
      nodePortPool,
      endpoint,
      'node port . index : endpoint of this node',
    ),
    commented('no-endpoint-nodeports', nodePort, 'node ports without endpoints: reject or drop'),
    set('nodeport-ips', [address], 'addresses that accept node ports'),
    set('cluster-ips', [address], 'ClusterIPs in use'),
    ...commonSets(family),
    map(
      'sticky-services',
      frontend,
      'verdict',
      'frontend with session affinity : where its clients went',
    ),
    map(
      'sticky-nodeports',
      nodePort,
      'verdict',
      'node port with session affinity : where its clients went',
    ),
    ...Object.values(learnMaps).map((name) =>
      map(name, endpoint, 'verdict', 'frontend : what to remember'),
    ),
    map('learn-nodeports', nodePort, 'verdict', 'node port : what to remember'),
    ...countingDefinitions(family),
  );
}

export type SetName = keyof ReturnType<typeof setDefinitions>;

/** A map whose elements have a comment with the Service port, which `nft list map` shows. */
function commented<Name extends string>(name: Name, key: readonly NFTypeName[], comment: string) {
  return { ...map(name, key, 'verdict', comment), isCommented: true };
}

/**
 * The most pairs of a frontend and an endpoint whose connections are counted. The kernel allocates
 * the buckets for all of them immediately, 1 MiB. To read a full set takes 0.5 s of processor time,
 * and with twice the size four times as long (nft_rhash_walk).
 */
export const countedEndpointsMax = 2 ** 16;

/** Few endpoints refuse connections. */
const countedResetsMax = 2 ** 14;

/** The sets that count. Batches fill the first two, packets fill the others. */
function countingDefinitions(family: Family) {
  const address = addressType(family);
  const frontend = [address, 'inet_proto', 'inet_service'] as const;
  const pair = [...frontend, address, 'inet_service'] as const;
  const nodePort = ['inet_proto', 'inet_service'] as const;
  return [
    filled('connections', frontend, 'first packets to frontends'),
    filled('nodeport-connections', nodePort, 'first packets to node ports'),
    countingSet('endpoint-connections', pair, 'first packets to endpoints', countedEndpointsMax),
    countingSet('endpoint-answers', pair, 'first answers of endpoints', countedEndpointsMax),
    countingSet('endpoint-resets', pair, 'refusals by endpoints', countedResetsMax),
    ...refusalSets(family),
  ] as const;
}

/** A set that batches fill, whose elements count. */
function filled<Name extends string>(name: Name, key: readonly NFTypeName[], comment: string) {
  return { ...set(name, key, comment), isCounted: true };
}

/** What `kubectl fairlead test` tries: the table of checks, and where each leads for one client. */
import type { Family } from '../../net/address.ts';

/** One side of the test, as a client knows it. */
export interface Scene {
  readonly services: readonly Frontends[];
  /** The first one is the only endpoint of the Services with a policy Local. */
  readonly servers: readonly Server[];
  readonly client: Client;
}

export interface Client {
  /** In the network of a pod, or of the node. */
  readonly network: 'pod' | 'node';
  readonly node: string;
  /** Addresses of its node, where node ports are tried. */
  readonly addresses: readonly string[];
}

export interface Server {
  readonly name: string;
  readonly node: string;
  readonly podAddresses: readonly string[];
  readonly nodeAddresses: readonly string[];
}

/** The Service `name`, with one port of TCP and one of UDP. */
export interface Frontends {
  readonly name: string;
  readonly clusterIPs: readonly string[];
  readonly port: number;
  readonly nodePorts: { readonly TCP?: number | undefined; readonly UDP?: number };
  readonly externalIPs: readonly string[];
  readonly loadBalancerIPs: readonly string[];
}

/**
 * `every`: each server answers some connections, and none fails. `first`: only the first server.
 * `one`: always the same server. `kept`: as `first`, and it sees the address of the client.
 */
type Expected = 'every' | 'first' | 'one' | 'kept' | 'refused' | 'dropped' | Status;

/** Of HTTP, by another program than servers of the test. */
export type Status = `status ${number}`;

/** One frontend to try. */
export interface Attempt {
  readonly check: string;
  readonly protocol: 'TCP' | 'UDP';
  readonly family: Family;
  readonly address: string;
  readonly port: number;
  /** The address of the server that connects in place of the client. */
  readonly through?: string | undefined;
  readonly expected: Expected;
  /** The node that decides about it, and as what it sees the client: what `explain` is asked. */
  readonly decidedOn: string;
  readonly seenAs: 'pod' | 'node' | 'outside';
}

interface Check {
  readonly name: string;
  /** Both where it is absent. */
  readonly network?: Client['network'];
  readonly protocols: readonly Attempt['protocol'][];
  /** Undefined: it leads to pods, without a Service. */
  readonly service?: string;
  /** Addresses to try; empty: there is nothing of this kind here. */
  readonly at: (scene: Scene, service: Frontends) => Place[];
  readonly expected: (scene: Scene) => Expected;
}

interface Place {
  readonly addresses: readonly string[];
  readonly isNodePort?: true;
  readonly through?: string | undefined;
  /** Default: the node of the client. */
  readonly decidedOn?: string | undefined;
}

/** The port of servers. */
export const serverPort = 8080;

const both = ['TCP', 'UDP'] as const;
const tcp = ['TCP'] as const;

const always = (expected: Expected) => (): Expected => expected;
const clusterIP: Check['at'] = (_, { clusterIPs }) => [{ addresses: clusterIPs }];
const ownNodePort: Check['at'] = ({ client: { addresses } }) => [{ addresses, isNodePort: true }];
/** Node ports at another node that has a server; `n`: which server. */
const nodePortOf =
  (n: number): Check['at'] =>
  ({ client, servers }) =>
    servers
      .slice(n, n + 1)
      .filter(({ node }) => node !== client.node)
      .map(({ node, nodeAddresses }) => {
        return { addresses: nodeAddresses, isNodePort: true, decidedOn: node };
      });
const isFirstsNode = ({ client, servers }: Scene): boolean => servers[0]?.node === client.node;

/** In the order of the printed table. */
const checks: readonly Check[] = [
  {
    name: 'pod, without a Service',
    protocols: both,
    at: ({ servers }) => servers.map(({ podAddresses: addresses }) => ({ addresses })),
    expected: always('one'),
  },
  {
    name: 'ClusterIP',
    protocols: both,
    service: 'plain',
    at: clusterIP,
    expected: always('every'),
  },
  // Domains in the /etc/resolv.conf of pods complete the name.
  {
    name: 'ClusterIP, by its name in DNS',
    network: 'pod',
    protocols: tcp,
    service: 'plain',
    at: (_, { name }) => [{ addresses: [name] }],
    expected: always('every'),
  },
  {
    name: 'ClusterIP, from its only endpoint to itself',
    network: 'pod',
    protocols: tcp,
    service: 'local',
    at: ({ servers: [first] }, { clusterIPs: addresses }) => [
      { addresses, through: first?.podAddresses[0], decidedOn: first?.node },
    ],
    expected: always('first'),
  },
  {
    name: 'ClusterIP, session affinity',
    protocols: both,
    service: 'affinity',
    at: clusterIP,
    expected: always('one'),
  },
  {
    name: 'ClusterIP, internalTrafficPolicy Local',
    protocols: both,
    service: 'local',
    at: clusterIP,
    expected: (scene) => (isFirstsNode(scene) ? 'first' : 'dropped'),
  },
  {
    name: 'ClusterIP, no endpoints',
    protocols: both,
    service: 'empty',
    at: clusterIP,
    expected: always('refused'),
  },
  {
    name: 'node port, own node',
    protocols: both,
    service: 'plain',
    at: ownNodePort,
    expected: always('every'),
  },
  {
    name: 'node port, another node',
    protocols: both,
    service: 'plain',
    at: (...of) => [...nodePortOf(0)(...of), ...nodePortOf(1)(...of)].slice(0, 1),
    expected: always('every'),
  },
  {
    name: 'node port, no endpoints',
    protocols: tcp,
    service: 'empty',
    at: ownNodePort,
    expected: always('refused'),
  },
  // Packets of pods may have the address of their node there: that is up to the network plugin.
  {
    name: 'node port, externalTrafficPolicy Local',
    network: 'node',
    protocols: both,
    service: 'local',
    at: nodePortOf(0),
    expected: always('kept'),
  },
  {
    name: 'node port, externalTrafficPolicy Local, no endpoint there',
    network: 'node',
    protocols: both,
    service: 'local',
    at: nodePortOf(1),
    expected: always('dropped'),
  },
  ...[200, 503].map(
    (status, n): Check => ({
      name: `health-check node port, ${n === 0 ? '' : 'no '}endpoint there`,
      protocols: tcp,
      service: 'local-health',
      at: nodePortOf(n),
      expected: always(`status ${status}`),
    }),
  ),
  {
    name: 'external IP',
    protocols: both,
    service: 'external',
    at: (_, { externalIPs: addresses }) => [{ addresses }],
    expected: always('every'),
  },
  {
    name: 'load balancer',
    protocols: tcp,
    service: 'balanced',
    at: (_, { loadBalancerIPs: addresses }) => [{ addresses }],
    expected: always('every'),
  },
];

export function attemptsOf(scene: Scene): Attempt[] {
  const { network, node } = scene.client;
  const nowhere = { name: '', clusterIPs: [], port: serverPort, nodePorts: {} };
  const bare: Frontends = { ...nowhere, externalIPs: [], loadBalancerIPs: [] };
  return checks
    .filter((check) => check.network === undefined || check.network === network)
    .flatMap(({ at, expected, name: check, protocols, service: name }) => {
      const service = name === undefined ? bare : scene.services.find((one) => one.name === name);
      if (service === undefined) return [];
      const places = at(scene, service).flatMap(({ addresses, ...place }) =>
        addresses.map((address) => ({ address, ...place })),
      );
      return places.flatMap(({ address, decidedOn = node, isNodePort, through }) =>
        protocols.flatMap((protocol): Attempt[] => {
          const port = isNodePort ? service.nodePorts[protocol] : service.port;
          if (port === undefined) return [];
          const family = address.includes(':') ? 'IPv6' : 'IPv4';
          const seenAs = decidedOn === node || through ? network : 'outside';
          const what = { check, protocol, family, address, port, through } as const;
          return [{ ...what, expected: expected(scene), decidedOn, seenAs }];
        }),
      );
    });
}

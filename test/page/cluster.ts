/** A cluster as manifests: Services of many teams, most of them as they should be. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const perTeam = 25;
const names = ['web', 'api', 'cart', 'search', 'login', 'mail', 'queue', 'cache', 'store', 'dns'];

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

/** Writes a file for each team. */
export function writeCluster(folder: string, services: number): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'node.json'), JSON.stringify(node));
  for (let first = 0; first < services; first += perTeam) {
    const count = Math.min(perTeam, services - first);
    const items = Array.from({ length: count }, (_, i) => serviceWithSlice(first + i)).flat();
    writeTeam(folder, `team-${first / perTeam}`, items);
  }
}

/** One more, of a Service that has some. */
export function addEndpoint(folder: string, team: string, service: string, address: string): void {
  const { items } = JSON.parse(readFileSync(join(folder, `${team}.json`), 'utf8'));
  const slice = items.find(({ metadata }: Manifest) => metadata.name === `${service}-abcde`);
  slice.endpoints.push({ ...slice.endpoints[0], addresses: [address] });
  writeTeam(folder, team, items);
}

/** Whole or not at all: the program may be reading. */
function writeTeam(folder: string, team: string, items: readonly Manifest[]): void {
  const path = join(folder, team);
  writeFileSync(path, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
  renameSync(path, `${path}.json`);
}

const node = {
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: 'node-a', labels: { 'topology.kubernetes.io/zone': 'zone-a' } },
  spec: { podCIDR: '10.244.0.0/24', podCIDRs: ['10.244.0.0/24'] },
  status: { addresses: [{ type: 'InternalIP', address: '192.0.2.10' }] },
};

/** Every hundredth has no endpoint, every fiftieth wants local ones and has none. */
function serviceWithSlice(index: number): Manifest[] {
  const namespace = `team-${Math.floor(index / perTeam)}`;
  const name = `${names[index % names.length]}-${index % perTeam}`;
  const isLocal = index % 50 === 7;
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace, uid: String(index), creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: {
      type: isLocal ? 'NodePort' : 'ClusterIP',
      clusterIP: clusterIP(index),
      clusterIPs: [clusterIP(index)],
      ipFamilies: ['IPv4'],
      ...(isLocal ? { externalTrafficPolicy: 'Local' } : {}),
      ports: [
        {
          name: 'http',
          protocol: 'TCP',
          port: 80,
          targetPort: 8080,
          ...(isLocal ? { nodePort: 30000 + Math.floor(index / 50) } : {}),
        },
      ],
    },
  };
  return [service, slice(service, index, index % 100 === 42 ? 0 : 3)];
}

function slice({ metadata: { name, namespace } }: Manifest, index: number, endpoints: number) {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: `${name}-abcde`,
      namespace: namespace!,
      labels: { 'kubernetes.io/service-name': name },
    },
    addressType: 'IPv4',
    ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
    endpoints: Array.from({ length: endpoints }, (_, i) => ({
      addresses: [`10.244.${((index * 3 + i) >> 8) % 256}.${(index * 3 + i) % 256}`],
      conditions: { ready: i < 2 || index % 10 > 0, serving: true, terminating: false },
      nodeName: i === 0 && index % 50 !== 7 ? 'node-a' : 'node-b',
      zone: i === 0 ? 'zone-a' : 'zone-b',
    })),
  };
}

function clusterIP(index: number): string {
  return `10.96.${(index + 10) >> 8}.${(index + 10) & 0xff}`;
}

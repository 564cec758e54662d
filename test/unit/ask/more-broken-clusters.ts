/** More broken clusters: faults of slices, of routes, of addresses that several Services want. */
import { brokenClusters, described, endpoints, here, node, there, web } from './broken-clusters.ts';

const show = ['service', 'show', 'default/web'] as const;

/** Another Service, at 10.96.0.2. */
export function other(name: string, spec = '', metadata = ''): string {
  return web(spec, metadata)
    .replaceAll('name: web', `name: ${name}`)
    .replace('10.96.0.1', '10.96.0.2')
    .replace('nodePort: 30080', 'nodePort: 30081')
    .replace('203.0.113.80', '203.0.113.81');
}

export const older = ', creationTimestamp: "2026-01-01T00:00:00Z"';
export const younger = ', creationTimestamp: "2026-02-01T00:00:00Z"';

export function aged(service: string, time: string): string {
  return service.replace('uid: u', `uid: u ${time}`);
}

export function hinted(endpoint: string, zone: string): string {
  return endpoint.replace('nodeName', `hints: { forZones: [{ name: ${zone} }] }, nodeName`);
}

const noZone = node.replace('labels: { topology.kubernetes.io/zone: zone-a }', 'labels: {}');
const pending = web().replace(/^status: .*$/m, 'status: {}');
const manyIPs = Array.from({ length: 12 }, (_, i) => `198.51.100.${i + 1}`);

const more = described({
  'the slice names hosts': {
    manifests: web() + endpoints('  - { addresses: [a.b] }').replace('IPv4', 'FQDN') + node,
    reasons: ['unused_slices'],
    outcome: 'rejected',
    cause: 'its addressType is FQDN, and a proxy needs addresses',
  },
  'the label of the slice is mistyped': {
    manifests:
      web() +
      endpoints(here).replace('kubernetes.io/service-name', 'kubernetes.io/servce-name') +
      node,
    reasons: ['unused_slices'],
    outcome: 'rejected',
    cause: 'its label is "kubernetes.io/servce-name" instead of "kubernetes.io/service-name"',
  },
  'the label of the slice names no Service': {
    manifests: web() + endpoints(here).replace('service-name: web', 'service-name: wbe') + node,
    reasons: ['no_slices'],
    outcome: 'rejected',
    cause: 'EndpointSlice default/web-1 is of default/wbe, which is no Service here',
  },
  'the slice is of a headless Service': {
    manifests:
      web() +
      endpoints(here).replace('labels: { ', "labels: { service.kubernetes.io/headless: '', ") +
      node,
    reasons: ['no_slices'],
    outcome: 'rejected',
    cause: 'No EndpointSlice belongs to it',
  },
  'the Service is of IPv6, and its slice of IPv4': {
    manifests: web().replace('10.96.0.1', 'fd00:96::1') + endpoints(here) + node,
    to: '[fd00:96::1]:80',
    from: 'fd00:244::9',
    reasons: ['other_family'],
    outcome: 'rejected',
    cause: 'It has no endpoint of IPv6: all its EndpointSlices are of IPv4.',
  },
  'no load balancer has come': {
    manifests: pending + endpoints(here) + node,
    ask: show,
    reasons: ['no_load_balancer'],
    outcome: 'endpoint',
    cause: 'no load balancer has given it one (the cluster has none, or it has not come to it yet)',
  },
  'no controller serves its class of load balancers': {
    manifests:
      pending.replace('type: Load', 'loadBalancerClass: a.b/c\n  type: Load') +
      endpoints(here) +
      node,
    ask: show,
    reasons: ['no_load_balancer'],
    outcome: 'endpoint',
    cause: 'no load balancer of class "a.b/c" has given it one',
  },
  'the load balancer has a name alone': {
    manifests:
      web().replace('{ ip: 203.0.113.80 }', '{ hostname: lb.example }') + endpoints(here) + node,
    outcome: 'endpoint',
    cause: 'Its only endpoint is taken: 10.244.0.5:8080.',
  },
  'the load balancer proxies itself': {
    manifests:
      web().replace('{ ip: 203.0.113.80 }', '{ ip: 203.0.113.80, ipMode: Proxy }') +
      endpoints(here) +
      node,
    to: '203.0.113.80:80',
    from: '203.0.113.9',
    outcome: 'nobody',
    cause: 'No Service has 203.0.113.80:80',
  },
  'the route to the endpoint is a blackhole': {
    manifests: web() + endpoints(there) + node,
    routes: { '10.244.1.6': 'blackhole' },
    reasons: ['no_route'],
    outcome: 'endpoint',
    cause:
      'Packets do not get to endpoint 10.244.1.6: its route is a blackhole (ip route get 10.244.1.6).',
  },
  'there is no route to the endpoint': {
    manifests: web() + endpoints(there) + node,
    routes: { '10.244.1.6': 'no_route' },
    reasons: ['no_route'],
    outcome: 'endpoint',
    cause: 'Packets do not get to endpoint 10.244.1.6: this node has no route to it',
  },
  'the route to one of two endpoints is forbidden': {
    manifests: web() + endpoints(`${here}\n${there}`) + node,
    routes: { '10.244.1.6': 'prohibited' },
    reasons: ['no_route'],
    outcome: 'endpoint',
    cause: 'Packets do not get to endpoint 10.244.1.6: its route is "prohibit"',
  },
  'the route to the endpoint is unreachable': {
    manifests: web() + endpoints(there) + node,
    routes: { '10.244.1.6': 'unreachable' },
    reasons: ['no_route'],
    outcome: 'endpoint',
    cause: 'Packets do not get to endpoint 10.244.1.6: its route is "unreachable"',
  },
  'an endpoint is another Service, and no ServiceCIDR is known': {
    manifests:
      other('target') +
      web() +
      endpoints(here.replace('10.244.0.5', '10.96.0.2'), '{ name: http, port: 80 }') +
      node.slice(0, node.indexOf('---')),
    reasons: ['service_address'],
    outcome: 'endpoint',
    cause: 'Endpoint 10.96.0.2 is not a pod: it is an address of default/target (port 80).',
  },
  'clients speak TCP, and the Service is of UDP': {
    manifests:
      web().replace('name: http,', 'name: http, protocol: UDP,') +
      endpoints(here, '{ name: http, protocol: UDP, port: 8080 }') +
      node,
    to: '10.96.0.1:80/TCP',
    outcome: 'nobody',
    cause: '10.96.0.1 is the ClusterIP of default/web, which has http 80/UDP, not 80/TCP',
  },
  'the port of the slice has another protocol': {
    manifests: web() + endpoints(here, '{ name: http, protocol: UDP, port: 8080 }') + node,
    reasons: ['port_name'],
    outcome: 'rejected',
    cause: 'has a port named "http" for TCP, they have "http" (8080/UDP): the protocols differ.',
  },
  'the ports of two slices have other names, and the last one came first': {
    manifests:
      web() +
      endpoints(here, '{ name: b, port: 8080 }').replace('name: web-1', 'name: web-2') +
      endpoints(there, '{ name: a, port: 8080 }') +
      node,
    reasons: ['port_name'],
    outcome: 'rejected',
    cause: 'has a port named "http" for TCP, they have "a" (8080/TCP), "b" (8080/TCP)',
  },
  'the port of the slice has no name': {
    manifests: web() + endpoints(here, "{ name: '', port: 8080 }") + node,
    reasons: ['port_name'],
    outcome: 'rejected',
    cause: 'has a port named "http" for TCP, they have "" (8080/TCP)',
  },
  'one of two ports is missing in the slice': {
    manifests:
      web().replace('ports: [{', 'ports: [{ name: admin, port: 81, targetPort: adm }, {') +
      endpoints(here) +
      node,
    to: 'default/web:admin',
    reasons: ['port_name'],
    outcome: 'rejected',
    cause: 'has a port named "admin" for TCP, they have "http" (8080/TCP)',
  },
  'hints are on one of two endpoints': {
    manifests: web() + endpoints(`${hinted(here, 'zone-b')}\n${there}`) + node,
    outcome: 'endpoint',
    cause: 'Hints are ignored: a ready endpoint has no hint for a zone.',
  },
  'hints are for another zone only': {
    manifests: web() + endpoints(hinted(here, 'zone-b')) + node,
    outcome: 'endpoint',
    cause: 'Hints are ignored: no ready endpoint is hinted for zone zone-a.',
  },
  'the node has no zone for hints': {
    manifests: web() + endpoints(hinted(here, 'zone-a')) + noZone,
    says: 'the Node has none, and 1 EndpointSlice with hints for zones',
    outcome: 'endpoint',
    cause: 'Hints are ignored: this node has no label topology.kubernetes.io/zone.',
  },
  'an older Service has the external IP': {
    manifests:
      aged(web('externalIPs: [198.51.100.7]'), younger) +
      aged(other('elder', 'externalIPs: [198.51.100.7]'), older) +
      endpoints(here) +
      node,
    ask: show,
    reasons: ['address_taken'],
    outcome: 'endpoint',
    cause: 'does not get externalIP 198.51.100.7:80, which default/elder holds',
  },
  'an older Service has the node port': {
    manifests:
      aged(web(), younger) +
      aged(other('elder').replace('30081', '30080'), older) +
      endpoints(here) +
      node,
    ask: show,
    reasons: ['address_taken'],
    outcome: 'endpoint',
    cause: 'does not get nodePort *:30080, which default/elder holds',
  },
  'all of several endpoints are not ready': {
    manifests:
      web() + endpoints(`${here}\n${there}`.replaceAll('ready: true', 'ready: false')) + node,
    reasons: ['not_ready'],
    outcome: 'rejected',
    cause: 'None of its 2 endpoints is ready.',
  },
  'the only endpoint terminates and serves no more': {
    manifests:
      web() +
      endpoints(here.replace('ready: true', 'ready: false, serving: false, terminating: true')) +
      node,
    reasons: ['not_ready'],
    outcome: 'rejected',
    cause: 'Its only endpoint is not ready.',
  },
  'load balancers see that no endpoint is here': {
    manifests:
      web('externalTrafficPolicy: Local\n  healthCheckNodePort: 31000') + endpoints(there) + node,
    to: '203.0.113.80:80',
    from: '203.0.113.9',
    ask: show,
    outcome: 'dropped',
    cause: 'load balancers see that at node port 31000, and send nothing here.',
  },
  'endpoints of an internal policy name no node': {
    manifests:
      web('internalTrafficPolicy: Local') +
      endpoints(here.replace('nodeName: node-a, ', '')) +
      node,
    reasons: ['no_local_endpoints', 'unknown_node'],
    outcome: 'dropped',
    cause: '1 of 1 endpoint is left out: it is on an unknown node: it has no nodeName.',
  },
  'it asks for more addresses than one Service gets': {
    manifests: web(`externalIPs: [${manyIPs.join()}]`) + endpoints(here) + node,
    flags: ['--service-frontends-max=10'],
    ask: show,
    reasons: ['over_limit'],
    outcome: 'endpoint',
    cause: 'It asks for too much and gets a part',
  },
  'the Service is in another namespace': {
    manifests: web() + endpoints(here) + node,
    to: 'shop/web:80',
    outcome: 'refused',
    cause: 'this proxy serves no Service shop/web: there is none of that name',
  },
  'the Service has no port of that name': {
    manifests: web() + endpoints(here) + node,
    to: 'default/web:https',
    outcome: 'refused',
    cause: 'Service default/web has no port "https": it has http 80/TCP',
  },
  'no Service has the node port': {
    manifests: web() + endpoints(here) + node,
    to: '192.168.7.7:31999',
    from: 'outside',
    outcome: 'nobody',
    cause: 'No Service has 192.168.7.7:31999',
  },
});

export const everyBrokenCluster = [...brokenClusters, ...more];

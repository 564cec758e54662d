/** Ranges of ports: annotation `fairlead.io/port-range`. */
import { type ActorName, CLIENT_IP, clusterIp, POD_A_IP, POD_B_IP } from '../lab/addresses.ts';
import {
  clientIpAffinity,
  type EndpointOptions,
  type KubernetesObject,
  type ServiceOptions,
  service,
  slices,
} from '../lab/objects.ts';
import type { Protocol } from '../lab/outcome.ts';
import {
  answered,
  apply,
  at,
  connect,
  type Expectation,
  open,
  refused,
  remove,
  restart,
  resume,
  type Server,
  type Story,
  silence,
  storyOf,
} from '../lab/story.ts';
import { annotated } from './balancing-rig.ts';
import { external, externalLocal, lb, unknownPort, unprogrammed, vip } from './common.ts';

const [first, last] = [5000, 5999];
/** At the end of the range, and a port within. */
const ports = [last, 5400] as const;
const range = { 'fairlead.io/port-range': `${first}-${last}` };
const otherVip = clusterIp(11);

function ranged(
  spec: Record<string, unknown> = {},
  options: ServiceOptions = {},
  annotations: Record<string, string> = range,
): KubernetesObject {
  const all = { ports: [{ port: first }], vips: [lb], externalIps: [external], ...options, spec };
  return annotated(service('web', all), annotations);
}

function behind(endpoints: readonly (ActorName | EndpointOptions)[], protocol: Protocol = 'TCP') {
  return slices('web', endpoints, { ports: [{ port: first, protocol }] });
}

/** Servers at ports of the range, in addition to those at its first port. */
function servers(protocol: Protocol = 'TCP', more: readonly number[] = []): readonly Server[] {
  return [first, ...ports, ...more].flatMap((port) => [
    { actor: 'pod-a' as const, at: at(POD_A_IP, port, protocol) },
    { actor: 'pod-b' as const, at: at(POD_B_IP, port, protocol) },
  ]);
}

const everywhere = [vip, lb, external];

/** Connects to ports within the range, at each kind of address. */
function each(actor: ActorName, expect: (port: number) => Expectation, addresses = everywhere) {
  return addresses.flatMap((address) =>
    ports.map((port) => connect(actor, at(address, port), expect(port))),
  );
}

/** A single port within the range, at the same addresses. */
function single(createdAt: string, spec: Record<string, unknown> = {}): KubernetesObject {
  const options = { clusterIp: otherVip, ports: [{ port: 5400 }], vips: [lb], spec };
  const { metadata, ...rest } = service('single', options);
  return { ...rest, metadata: { ...metadata, creationTimestamp: createdAt } } as KubernetesObject;
}

function dated(one: KubernetesObject): KubernetesObject {
  const metadata = { ...one.metadata, creationTimestamp: '2026-01-02T00:00:00Z' };
  return { ...one, metadata } as KubernetesObject;
}

const firsts = (['TCP', 'UDP', 'SCTP'] as const).map((protocol) => ({
  name: protocol.toLowerCase(),
  port: first,
  protocol,
}));
const [both, others] = [firsts.slice(0, 2), firsts.slice(1)];
const own = { name: 'own', port: 5400 };
const listed = [own, { ...own, name: 'own-udp', protocol: 'UDP' as const }, ...both];
const ofSingle = slices('single', ['pod-b'], { ports: [{ port: 5400 }] });
const podA = answered({ 'pod-a': 'any' });
const podB = answered({ 'pod-b': 'any' });

export const portRangeStories: readonly Story[] = [
  {
    name: 'A range leads each of its ports to the same port of every endpoint, and no other port',
    covers: [],
    servers: servers('TCP', [last + 1]),
    steps: [
      apply(ranged(), ...behind(['pod-a', 'pod-b'])),
      ...each('client', (p) => answered({ [`pod-a:${p}`]: 'node', [`pod-b:${p}`]: 'node' })),
      ...each('node', (p) => answered({ [`pod-a:${p}`]: 'node', [`pod-b:${p}`]: 'node' })),
      connect('client', at(vip, first), answered({ 'pod-a:5000': 'node', 'pod-b:5000': 'node' })),
      connect('node', at(vip, first), answered({ 'pod-a:5000': 'node', 'pod-b:5000': 'node' })),
      connect('client', at(vip, last + 1), unknownPort),
      connect('pod-a', at(vip, last + 1), unknownPort),
      connect('client', at(lb, last + 1), unprogrammed),
      apply(...behind(['pod-b'])),
      open('kept', 'pod-a', at(vip, 5400), podB),
      ...each('client', (p) => answered({ [`pod-b:${p}`]: 'node' })),
      apply(ranged({}, {}, { 'fairlead.io/port-range': '5000-5500' })),
      connect('client', at(lb, 5400), answered({ 'pod-b:5400': 'node' })),
      connect('client', at(lb, last), unprogrammed),
      restart(),
      connect('pod-a', at(vip, 5400), podB),
      connect('pod-a', at(vip, last), unknownPort),
      apply(ranged({}, {}, {})),
      resume('kept', podB),
      connect('pod-a', at(vip, 5400), unknownPort),
      connect('client', at(lb, 5400), unprogrammed),
      connect('client', at(lb, first), answered({ 'pod-b:5000': 'node' })),
    ],
  },
  {
    ...storyOf('UDP and SCTP have the range, too, where they have its first port', '', [
      apply(ranged({}, { ports: others }), ...slices('web', ['pod-a'], { ports: others })),
      connect('client', at(lb, 5400, 'UDP'), answered({ 'pod-a:5400': 'node' })),
      connect('client', at(lb, 5400, 'SCTP'), answered({ 'pod-a:5400': 'node' })),
      connect('pod-b', at(vip, last, 'UDP'), answered({ 'pod-a:5999': 'own' })),
      connect('client', at(lb, 5400), unprogrammed),
    ]),
    servers: [...servers('UDP'), ...servers('SCTP')],
  },
  storyOf('An endpoint that reaches itself by a range is masqueraded', '', { servers: servers() }, [
    apply(ranged(), ...behind(['pod-a'])),
    ...each('pod-a', (p) => answered({ [`pod-a:${p}`]: 'node' })),
    connect('pod-b', at(vip, last), answered({ [`pod-a:${last}`]: 'own' })),
  ]),
  {
    name: 'Policy Local keeps the address of clients of a range, and drops them without an endpoint',
    covers: [],
    servers: servers(),
    steps: [
      apply(ranged(externalLocal), ...behind(['pod-a', 'pod-c'])),
      ...each('client', (p) => answered({ [`pod-a:${p}`]: 'own' }), [lb, external]),
      apply(...behind(['pod-c'])),
      ...each('client', () => silence, [lb]),
      apply(...behind([])),
      ...each('client', () => refused),
      connect('client', at(lb, last + 1), unprogrammed),
    ],
  },
  {
    ...storyOf('Source ranges guard a range, and no other Service’s port within it', '', [
      apply(
        dated(ranged({ loadBalancerSourceRanges: ['20.0.0.0/8', '3fff::/20'] })),
        single('2026-01-01T00:00:00Z'),
        ...behind(['pod-a']),
        ...ofSingle,
      ),
      connect('client', at(lb, last), silence),
      connect('client', at(lb, 5400), podB),
      connect('client', at(vip, last), podA),
      apply(
        dated(
          ranged({
            loadBalancerSourceRanges: [`${CLIENT_IP.IPv4}/32`, `${CLIENT_IP.IPv6}/128`],
          }),
        ),
      ),
      connect('client', at(lb, last), podA),
    ]),
    servers: servers(),
  },
  {
    name: 'A port within a range stays with an older Service, and a younger one does not get it',
    covers: [],
    servers: servers(),
    steps: [
      apply(dated(ranged()), single('2026-01-01T00:00:00Z'), ...behind(['pod-a']), ...ofSingle),
      connect('client', at(lb, 5400), podB),
      connect('client', at(lb, last), podA),
      apply(single('2026-01-03T00:00:00Z')),
      connect('client', at(lb, 5400), podA),
      connect('client', at(otherVip, 5400), podB),
      remove(ranged()),
      connect('client', at(lb, 5400), podB),
      apply(dated(ranged())),
      connect('client', at(lb, 5400), podA),
      remove(single('2026-01-03T00:00:00Z')),
      connect('client', at(lb, 5400), podA),
    ],
  },
  {
    ...storyOf('A port within a range refuses where its Service has no endpoint', '', [
      apply(
        dated(ranged({}, { externalIps: [external, otherVip] })),
        single('2026-01-01T00:00:00Z'),
        ...behind(['pod-a']),
      ),
      connect('client', at(lb, 5400), refused),
      connect('client', at(otherVip, 5400), refused),
      connect('client', at(lb, last), podA),
      apply(...ofSingle),
      connect('client', at(lb, 5400), podB),
      connect('client', at(otherVip, 5400), podB),
      apply(...slices('single', [], { ports: [{ port: 5400 }] })),
      connect('client', at(otherVip, 5400), refused),
      remove(ranged()),
      connect('client', at(lb, 5400), refused),
      apply(
        dated(ranged({}, { externalIps: [external, otherVip] })),
        single('2026-01-01T00:00:00Z', externalLocal),
        ...slices('single', ['pod-c'], { ports: [{ port: 5400 }] }),
      ),
      connect('client', at(lb, last), podA),
      connect('client', at(lb, 5400), silence),
      connect('client', at(otherVip, last), podA),
    ]),
    servers: servers(),
  },
  {
    ...storyOf('A port that its Service lists within a range refuses without endpoints', '', [
      apply(ranged({}, { ports: listed }), ...slices('web', ['pod-a'], { ports: both })),
      ...everywhere.map((to) => connect('client', at(to, 5400), refused)),
      connect('pod-b', at(vip, 5400), refused),
      connect('pod-b', at(vip, 5400, 'UDP'), refused),
      ...everywhere.map((to) => connect('client', at(to, last), podA)),
      apply(...slices('web', ['pod-a'], { ports: [...both, { ...own, port: 8080 }] })),
      ...everywhere.map((to) => connect('client', at(to, 5400), answered({ 'pod-a:8080': 'any' }))),
      connect('pod-b', at(vip, 5400), answered({ 'pod-a:8080': 'any' })),
      apply(...slices('web', ['pod-a'], { ports: both })),
      connect('pod-b', at(vip, 5400), refused),
    ]),
    servers: [...servers(), ...servers('UDP')],
  },
  {
    ...storyOf('UDP flows to a range move with its endpoints, and end with the last', '', [
      apply(ranged({}, { ports: [{ port: first, protocol: 'UDP' }] }), ...behind(['pod-a'], 'UDP')),
      ...everywhere.map((to, n) => open(`flow ${n}`, 'client', at(to, 5400, 'UDP'), podA)),
      apply(...behind(['pod-b'], 'UDP')),
      ...everywhere.map((_, n) => resume(`flow ${n}`, podB)),
      apply(
        ranged(
          {},
          { ports: [{ port: first, protocol: 'UDP' }] },
          { 'fairlead.io/port-range': '5000-5300' },
        ),
      ),
      resume('flow 0', unknownPort),
      apply(ranged({}, { ports: [{ port: first, protocol: 'UDP' }] })),
      ...everywhere.map((_, n) => resume(`flow ${n}`, podB)),
      apply(...behind([], 'UDP')),
      ...everywhere.map((_, n) => resume(`flow ${n}`, refused)),
      apply(...behind(['pod-a'], 'UDP')),
      ...everywhere.map((_, n) => resume(`flow ${n}`, podA)),
    ]),
    servers: servers('UDP'),
  },
  {
    ...storyOf('What a range cannot have leaves only its first port served', '', [
      apply(ranged(clientIpAffinity(60)), ...behind(['pod-a'])),
      connect('client', at(lb, first), podA),
      connect('client', at(lb, last), unprogrammed),
      apply(ranged(), ...slices('web', ['pod-a'], { ports: [{ port: 8080 }] })),
      connect('client', at(lb, first), answered({ 'pod-a:8080': 'any' })),
      connect('client', at(lb, last), unprogrammed),
      apply(...behind(['pod-a'])),
      connect('client', at(lb, last), podA),
    ]),
    servers: servers(),
  },
];

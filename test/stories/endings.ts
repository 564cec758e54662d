/** Connections whose endpoint has gone, of Services with the annotation for it. */
import type { ActorName } from '../lab/addresses.ts';
import { clusterIp, NODE_IP } from '../lab/addresses.ts';
import {
  clientIpAffinity,
  type EndpointOptions,
  type KubernetesObject,
  service,
  slices,
} from '../lab/objects.ts';
import {
  answered,
  apply,
  at,
  connect,
  open,
  reset,
  resume,
  resumeUntil,
  type Step,
  type Story,
  skip,
  storyOf,
} from '../lab/story.ts';
import {
  external,
  externalLocal,
  fromOutside,
  frontends,
  internalLocal,
  lb,
  NODE_PORT,
  reachable,
  vip,
} from './common.ts';
import { endsNoOldConnections } from './differences.ts';

const all = [frontends.clusterIp, ...fromOutside];
const podA = answered({ 'pod-a': 'any' });
const podB = answered({ 'pod-b': 'any' });
const other = clusterIp(11);

function ending(value: string, object: KubernetesObject): KubernetesObject {
  return annotated({ 'fairlead.io/end-connections': value }, object);
}

function aging(age: string): KubernetesObject {
  return annotated({ 'fairlead.io/max-connection-age': age }, reachable());
}

function annotated(annotations: Record<string, string>, object: KubernetesObject) {
  return { ...object, metadata: { ...object.metadata, annotations } };
}

const onRemoval = ending('on-removal', reachable());

function behind(...endpoints: readonly (ActorName | EndpointOptions)[]) {
  return slices('web', endpoints);
}

/** Longer than connections stay with `on-removal`. */
const aMoment = skip(1500, 'longer than connections go on after their endpoint has left');

/** Connections to each frontend, from outside, from a pod and from the node. */
function openAll(): Step[] {
  return [
    ...all.map((to, n) => open(`of a client ${n}`, 'client', to, podA)),
    open('of a pod', 'pod-b', frontends.clusterIp, podA),
    open('of the node', 'node', frontends.clusterIp, podA),
  ];
}

const flows = [...all.map((_, n) => `of a client ${n}`), 'of a pod', 'of the node'];

function resumeAll(expect: typeof podA): Step[] {
  return flows.map((flow) => resume(flow, expect));
}

/** Each is ended, sooner or later. */
function endAll(afterMs = 1500): Step[] {
  return [
    skip(afterMs, 'longer than connections go on after their endpoint has left'),
    ...flows.map((flow) => resumeUntil(flow, reset)),
  ];
}

/** A Service of UDP that keeps flows to endpoints that terminate. */
const keeping = annotated(
  { 'fairlead.io/udp-flows': 'keep-while-serving' },
  reachable({}, { ports: [{ port: 53, protocol: 'UDP', nodePort: NODE_PORT }] }),
);

function datagrams(...endpoints: readonly (ActorName | EndpointOptions)[]) {
  return slices('web', endpoints, { ports: [{ port: 8080, protocol: 'UDP' }] });
}

const overUDP = [
  at(vip, 53, 'UDP'),
  at(lb, 53, 'UDP'),
  at(external, 53, 'UDP'),
  at(NODE_IP, NODE_PORT, 'UDP'),
];

const plain = service('other', { clusterIp: other });

export const endingStories: readonly Story[] = [
  {
    name: 'Open connections are reset when their endpoint has left, where the Service says so',
    covers: ['5.12'],
    steps: [
      apply(onRemoval, ...behind('pod-a')),
      ...openAll(),
      apply(...behind('pod-b')),
      ...endAll(),
    ],
  },
  {
    name: 'Open connections are reset when the last endpoint has left, where the Service says so',
    covers: ['5.12'],
    steps: [apply(onRemoval, ...behind('pod-a')), ...openAll(), apply(...behind()), ...endAll()],
  },
  {
    name: 'Open connections are reset when only endpoints are left that the policy does not allow',
    covers: ['5.12'],
    steps: [
      apply(
        ending('on-removal', reachable({ ...externalLocal, ...internalLocal })),
        ...behind('pod-a', 'pod-c'),
      ),
      ...openAll(),
      apply(...behind('pod-c')),
      ...endAll(),
    ],
  },
  {
    name: 'Connections to an endpoint that terminates, or is not ready, are not ended before it left',
    covers: ['5.12'],
    steps: [
      apply(onRemoval, ...behind('pod-a')),
      ...openAll(),
      apply(...behind({ at: 'pod-a', ready: false, serving: true, terminating: true }, 'pod-b')),
      aMoment,
      ...resumeAll(podA),
      apply(...behind({ at: 'pod-a', ready: false, serving: false, terminating: true }, 'pod-b')),
      aMoment,
      ...resumeAll(podA),
      apply(...behind({ at: 'pod-a', ready: false }, 'pod-b')),
      aMoment,
      ...resumeAll(podA),
      apply(...behind('pod-b')),
      ...endAll(),
    ],
  },
  {
    name: 'Connections continue for as long as the Service says after their endpoint has left',
    covers: ['5.12'],
    steps: [
      apply(ending('after:8s', reachable()), ...behind('pod-a')),
      ...openAll(),
      apply(...behind('pod-b')),
      aMoment,
      ...resumeAll(podA),
      ...endAll(8000),
    ],
  },
  {
    name: 'Connections continue when their endpoint comes back in time, or has never left',
    covers: ['5.12'],
    steps: [
      apply(ending('after:8s', reachable()), ...behind('pod-a', 'pod-b')),
      apply(...behind('pod-a')),
      ...openAll(),
      apply(...behind('pod-b')),
      apply(...behind('pod-a', 'pod-b')),
      skip(8500, 'longer than connections go on after their endpoint has left'),
      ...resumeAll(podA),
    ],
  },
  storyOf('Connections of other Services continue, also to the same endpoint', '5.12', [
    apply(onRemoval, plain, ...behind('pod-a'), ...slices('other', ['pod-a'])),
    open('ended', 'client', frontends.clusterIp, podA),
    open('of the other', 'client', at(other, 80), podA),
    open('of the other, from a pod', 'pod-b', at(other, 80), podA),
    apply(...behind('pod-b'), ...slices('other', ['pod-b'])),
    resumeUntil('ended', reset),
    resume('of the other', podA),
    resume('of the other, from a pod', podA),
  ]),
  {
    name: 'Open connections of clients that are remembered are reset when their endpoint has left',
    covers: ['5.8', '5.12'],
    steps: [
      apply(ending('on-removal', reachable(clientIpAffinity(60))), ...behind('pod-a')),
      ...openAll(),
      apply(...behind('pod-b')),
      ...endAll(),
      connect('client', frontends.clusterIp, podB),
    ],
  },
  {
    name: 'Connections that are older than the Service says are reset, others continue',
    covers: ['5.12'],
    differsIn: endsNoOldConnections,
    steps: [
      apply(aging('10s'), plain, ...behind('pod-a'), ...slices('other', ['pod-a'])),
      ...openAll(),
      open('of the other', 'client', at(other, 80), podA),
      // The same endpoint would know what follows.
      apply(...behind('pod-b')),
      aMoment,
      ...resumeAll(podA),
      ...endAll(10_000),
      resume('of the other', podA),
      connect('client', frontends.clusterIp, podB),
    ],
  },
  {
    name: 'UDP flows stay with an endpoint as long as it serves, where the Service says so',
    covers: ['5.12'],
    steps: [
      apply(keeping, ...datagrams('pod-a')),
      ...overUDP.map((to, n) => open(`of a client ${n}`, 'client', to, podA)),
      open('of a pod', 'pod-b', overUDP[0]!, podA),
      open('of the node', 'node', overUDP[0]!, podA),
      apply(...datagrams({ at: 'pod-a', ready: false, serving: true, terminating: true }, 'pod-b')),
      ...resumeAll(podA),
      connect('client', overUDP[0]!, podB),
      apply(
        ...datagrams({ at: 'pod-a', ready: false, serving: false, terminating: true }, 'pod-b'),
      ),
      ...resumeAll(podB),
    ],
  },
];

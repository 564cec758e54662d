/** Connections whose endpoint has gone, of Services with the annotation for it. */
import type { ActorName } from '../lab/addresses.ts';
import { clusterIp } from '../lab/addresses.ts';
import { type EndpointOptions, type KubernetesObject, service, slices } from '../lab/objects.ts';
import {
  answered,
  apply,
  at,
  open,
  reset,
  resume,
  resumeUntil,
  type Step,
  type Story,
  wait,
} from '../lab/story.ts';
import { externalLocal, fromOutside, frontends, internalLocal, reachable } from './common.ts';
import { endsNoConnections } from './differences.ts';

const all = [frontends.clusterIp, ...fromOutside];
const podA = answered({ 'pod-a': 'any' });
const other = clusterIp(11);

function ending(value: string, object: KubernetesObject): KubernetesObject {
  const annotations = { 'fairlead.io/end-connections': value };
  return { ...object, metadata: { ...object.metadata, annotations } };
}

const onRemoval = ending('on-removal', reachable());

function behind(...endpoints: readonly (ActorName | EndpointOptions)[]) {
  return slices('web', endpoints);
}

/** Longer than connections stay with `on-removal`. */
const aMoment = wait(1500, 'longer than connections go on after their endpoint has left');

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
function endAll(): Step[] {
  return flows.map((flow) => resumeUntil(flow, reset));
}

const plain = service('other', { clusterIp: other });

export const endingStories: readonly Story[] = [
  {
    name: 'Open connections are reset when their endpoint has left, where the Service says so',
    covers: ['5.12'],
    differsIn: endsNoConnections,
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
    differsIn: endsNoConnections,
    steps: [apply(onRemoval, ...behind('pod-a')), ...openAll(), apply(...behind()), ...endAll()],
  },
  {
    name: 'Open connections are reset when only endpoints are left that the policy does not allow',
    covers: ['5.12'],
    differsIn: endsNoConnections,
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
    differsIn: endsNoConnections,
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
    differsIn: endsNoConnections,
    steps: [
      apply(ending('after:8s', reachable()), ...behind('pod-a')),
      ...openAll(),
      apply(...behind('pod-b')),
      aMoment,
      ...resumeAll(podA),
      ...endAll(),
    ],
  },
  {
    name: 'Connections continue when their endpoint comes back in time, or has never left',
    covers: ['5.12'],
    differsIn: endsNoConnections,
    steps: [
      apply(ending('after:8s', reachable()), ...behind('pod-a', 'pod-b')),
      apply(...behind('pod-a')),
      ...openAll(),
      apply(...behind('pod-b')),
      apply(...behind('pod-a', 'pod-b')),
      wait(8500, 'longer than connections go on after their endpoint has left'),
      ...resumeAll(podA),
    ],
  },
  {
    name: 'Connections of other Services continue, also to the same endpoint',
    covers: ['5.12'],
    differsIn: endsNoConnections,
    steps: [
      apply(onRemoval, plain, ...behind('pod-a'), ...slices('other', ['pod-a'])),
      open('ended', 'client', frontends.clusterIp, podA),
      open('of the other', 'client', at(other, 80), podA),
      open('of the other, from a pod', 'pod-b', at(other, 80), podA),
      apply(...behind('pod-b'), ...slices('other', ['pod-b'])),
      resumeUntil('ended', reset),
      resume('of the other', podA),
      resume('of the other, from a pod', podA),
    ],
  },
];

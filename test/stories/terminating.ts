/** Endpoints that terminate (behaviour document 5.3; KEP-1669). */

import type { ActorName } from '../lab/addresses.ts';
import { type EndpointOptions, service, slices } from '../lab/objects.ts';
import {
  answered,
  apply,
  connect,
  open,
  refused,
  resume,
  type Story,
  silence,
  storyOf,
} from '../lab/story.ts';
import { externalLocal, frontends, internalLocal, reachable } from './common.ts';
import { hasOnePool } from './differences.ts';

const { clusterIp, loadBalancer, nodePort } = frontends;

/** Going, but still answering. */
function draining(at: ActorName): EndpointOptions {
  return { at, ready: false, serving: true, terminating: true };
}

/** Going, and no longer answering. */
function gone(at: ActorName): EndpointOptions {
  return { at, ready: false, serving: false, terminating: true };
}

export const terminatingStories: readonly Story[] = [
  storyOf('Terminating endpoints get nothing while others are ready', '5.3', [
    apply(service('web'), ...slices('web', [draining('pod-a'), 'pod-b', 'pod-c'])),
    connect('client', clusterIp, answered({ 'pod-b': 'node', 'pod-c': 'node' })),
  ]),
  {
    name: 'When all endpoints terminate, those that still serve are used, by both policies',
    covers: ['5.3', '12.13'],
    steps: [
      apply(
        reachable(externalLocal),
        ...slices('web', [draining('pod-a'), gone('pod-b'), draining('pod-c')]),
      ),
      connect('client', clusterIp, answered({ 'pod-a': 'node', 'pod-c': 'node' })),
      connect('client', loadBalancer, answered({ 'pod-a': 'own' })),
    ],
  },
  storyOf('Terminating endpoints that no longer serve are never used', '5.3 12.13', [
    apply(reachable(externalLocal), ...slices('web', [gone('pod-a'), gone('pod-c')])),
    connect('client', clusterIp, refused),
    connect('client', nodePort, refused),
  ]),
  {
    name: 'An endpoint that serves but is neither ready nor terminating is never used',
    covers: ['5.3', '12.14'],
    steps: [
      apply(service('web'), ...slices('web', [{ at: 'pod-a', ready: false, serving: true }])),
      connect('client', clusterIp, refused),
      apply(...slices('web', [{ at: 'pod-a', ready: false, serving: true }, draining('pod-b')])),
      connect('client', clusterIp, answered({ 'pod-b': 'node' })),
    ],
  },
  {
    name: 'Each policy falls back by itself: ready ones elsewhere, terminating ones here',
    covers: ['5.3', '12.12'],
    differsIn: hasOnePool,
    steps: [
      apply(reachable(externalLocal), ...slices('web', [draining('pod-a'), 'pod-c'])),
      connect('client', clusterIp, answered({ 'pod-c': 'node' })),
      connect('client', loadBalancer, answered({ 'pod-a': 'own' })),
      connect('pod-b', loadBalancer, answered({ 'pod-c': 'own' })),
      connect('node', nodePort, answered({ 'pod-c': 'node' })),
    ],
  },
  storyOf('Internal policy Local falls back to terminating endpoints of the node', '5.3 12.12', [
    apply(service('web', { spec: internalLocal }), ...slices('web', [draining('pod-a'), 'pod-c'])),
    connect('pod-b', clusterIp, answered({ 'pod-a': 'own' })),
    apply(...slices('web', [gone('pod-a'), 'pod-c'])),
    connect('pod-b', clusterIp, silence),
  ]),
  storyOf('A local endpoint that is ready is preferred to one that terminates', '5.3', [
    apply(reachable(externalLocal), ...slices('web', [draining('pod-a'), 'pod-b', 'pod-c'])),
    connect('client', loadBalancer, answered({ 'pod-b': 'own' })),
  ]),
  storyOf('Open connections to an endpoint outlive its draining and its end', '5.3 5.12', [
    apply(service('web'), ...slices('web', ['pod-a'])),
    open('kept', 'client', clusterIp, answered({ 'pod-a': 'node' })),
    open('big', 'pod-b', clusterIp, answered({ 'pod-a': 'own' }), { download: 'endless' }),
    apply(...slices('web', [draining('pod-a'), 'pod-b'])),
    connect('client', clusterIp, answered({ 'pod-b': 'node' })),
    resume('kept', answered({ 'pod-a': 'node' })),
    apply(...slices('web', ['pod-b'])),
    resume('kept', answered({ 'pod-a': 'node' })),
    resume('big', answered({ 'pod-a': 'own' })),
  ]),
  storyOf('Open connections do not notice that other endpoints come and go', '5.3', [
    apply(service('web'), ...slices('web', ['pod-b'])),
    open('kept', 'client', clusterIp, answered({ 'pod-b': 'node' })),
    apply(...slices('web', ['pod-a', 'pod-b', 'pod-c'])),
    resume('kept', answered({ 'pod-b': 'node' })),
    apply(...slices('web', ['pod-c', 'pod-b'])),
    resume('kept', answered({ 'pod-b': 'node' })),
    apply(...slices('web', ['pod-b'])),
    resume('kept', answered({ 'pod-b': 'node' })),
  ]),
];

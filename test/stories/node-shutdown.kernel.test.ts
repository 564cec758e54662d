/** What becomes of packets on a node that shuts down, as the kubelet says of it. */
import { afterAll, beforeAll, describe, test } from 'vitest';
import { createLab, type Lab } from '../lab/lab.ts';
import { node, SERVER_PORT, service, slices, settings as standard } from '../lab/objects.ts';
import { runStory } from '../lab/run-story.ts';
import { answered, apply, at, connect, open, resume, type Story, storyOf } from '../lab/story.ts';
import { externalLocal, frontends, reachable, vip } from './common.ts';
import { fairlead } from './fairlead-proxy.ts';

const settings = {
  ...standard,
  healthzNodeShutdown: true,
} as const;
const { clusterIp, loadBalancer } = frontends;

const { status, ...rest } = node();
const message = 'node is shutting down';
const goes = {
  ...rest,
  status: { ...(status as object), conditions: [{ type: 'Ready', status: 'False', message }] },
};

const podA = answered({ 'pod-a': 'any' });
const podC = answered({ 'pod-c': 'any' });
const both = answered({ 'pod-a': 'any', 'pod-c': 'any' });
const isUDP = { ports: [{ port: SERVER_PORT, protocol: 'UDP' as const }] };

const stories: readonly Story[] = [
  {
    name: 'New connections go to other nodes while one of their endpoints is ready, and others continue',
    covers: [],
    settings,
    steps: [
      apply(reachable(externalLocal), ...slices('web', ['pod-a'])),
      open('kept', 'client', clusterIp, podA),
      apply(...slices('web', ['pod-a', 'pod-c'])),
      connect('client', clusterIp, both),
      apply(goes),
      connect('client', clusterIp, podC),
      connect('pod-b', clusterIp, podC),
      resume('kept', podA),
      connect('client', loadBalancer, podA),
      apply(...slices('web', ['pod-a', { at: 'pod-c', ready: false }])),
      connect('client', clusterIp, podA),
      apply(...slices('web', ['pod-a', 'pod-c'])),
      connect('client', clusterIp, podC),
      apply(node()),
      connect('client', clusterIp, both),
    ],
  },
  storyOf('Flows of UDP continue, too', '', { settings }, [
    apply(service('web', isUDP), ...slices('web', ['pod-a'], isUDP)),
    open('kept', 'client', at(vip, SERVER_PORT, 'UDP'), podA),
    apply(goes, ...slices('web', ['pod-a', 'pod-c'], isUDP)),
    connect('client', at(vip, SERVER_PORT, 'UDP'), podC),
    resume('kept', podA),
  ]),
  {
    ...storyOf('Without the setting they go to all', '', [
      apply(goes, reachable(), ...slices('web', ['pod-a', 'pod-c'])),
      connect('client', clusterIp, both),
    ]),
    settings: { ...settings, healthzNodeShutdown: false },
  },
];

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

describe.each(['nftables', 'iptables'] as const)('in mode %s', (mode) => {
  test.each(stories)('$name', (story) => runStory(lab, fairlead(mode), story));
});

/**
 * Session affinity ClientIP (behaviour document 5.8). A client is bound while there is one
 * endpoint; then there are others. That clients are no longer bound is shown by six of them and 60
 * endpoints that lead nowhere: by chance all get their former endpoint once in 50 billion times.
 */
import { CLIENT_IP, CLIENT_MORE_IPS, CLIENT_OTHER_IP, clusterIp, lbVip } from '../lab/addresses.ts';
import { clientIpAffinity, service, slices } from '../lab/objects.ts';
import {
  answered,
  answeredByAny,
  answeredByOne,
  apply,
  at,
  chosenAgain,
  connect,
  refused,
  remove,
  restart,
  type Step,
  type Story,
  storyOf,
  type Target,
  wait,
} from '../lab/story.ts';
import {
  externalLocal,
  fromOutside,
  frontends,
  internalLocal,
  lb,
  manyNowhere,
  NODE_PORT,
  reachable,
  vip,
} from './common.ts';
import {
  forgetsAtRestart,
  hasNoSCTP,
  hasOnePool,
  remembersAddresses,
  remembersWhileConnected,
  remembersWhileDraining,
  remembersWhileOff,
} from './differences.ts';

const { clusterIp: toVip, loadBalancer } = frontends;
const everything = Object.values(frontends);
const podA = answered({ 'pod-a': 'any' });
const once = { connections: 1 };
const otherClients = [CLIENT_OTHER_IP, ...CLIENT_MORE_IPS];
/** Six clients, which get new endpoints independently of each other. */
const eachClient = { from: { each: [CLIENT_IP, ...otherClients] }, connections: 1 };
const all = slices('web', ['pod-a', 'pod-b', 'pod-c']);
const onlyA = slices('web', ['pod-a']);

const protocols = [
  { name: 'udp', port: 8080, protocol: 'UDP' },
  { name: 'sctp', port: 8080, protocol: 'SCTP' },
] as const;

function sticky(seconds = 60) {
  return service('web', { spec: clientIpAffinity(seconds) });
}

const secondLB = lbVip(2);
const stickyEverywhere = reachable(clientIpAffinity(60), { vips: [lb, secondLB] });

const sticks: readonly Story[] = [
  {
    name: 'A client with session affinity comes back to its endpoint, by each kind of frontend',
    covers: ['5.8', '12.80'],
    steps: [
      apply(stickyEverywhere, ...onlyA),
      ...everything.map((target) => connect('client', target, podA, once)),
      ...everything.map((target) => connect('pod-b', target, podA, once)),
      ...everything.map((target) => connect('node', target, podA, once)),
      apply(...all),
      ...everything.map((target) => connect('client', target, answered({ 'pod-a': 'node' }))),
      ...everything.map((target) => connect('pod-b', target, podA)),
      ...everything.map((target) => connect('node', target, answered({ 'pod-a': 'node' }))),
    ],
  },
  storyOf('Session affinity is by client address: another one may get another endpoint', '5.8', [
    apply(sticky(), ...onlyA),
    connect('client', toVip, podA, { from: { addresses: CLIENT_IP } }),
    apply(...manyNowhere),
    connect('client', toVip, podA, { from: { addresses: CLIENT_IP } }),
    connect('client', toVip, chosenAgain('pod-a'), {
      from: { each: otherClients },
    }),
  ]),
  storyOf('A new client with session affinity gets one endpoint every time', '5.8', [
    apply(stickyEverywhere, ...all),
    connect('client', toVip, answeredByOne({ 'pod-a': 'any', 'pod-b': 'any', 'pod-c': 'any' })),
    connect(
      'node2',
      loadBalancer,
      answeredByOne({ 'pod-a': 'any', 'pod-b': 'any', 'pod-c': 'any' }),
    ),
  ]),
  {
    name: 'Session affinity of one Service says nothing about another, nor about another port',
    covers: ['5.8'],
    steps: [
      apply(
        service('web', {
          ports: [
            { name: 'http', port: 80 },
            { name: 'admin', port: 81 },
          ],
          spec: clientIpAffinity(60),
        }),
        service('shop', { clusterIp: clusterIp(11), spec: clientIpAffinity(60) }),
        ...slices('web', ['pod-a'], { ports: [{ name: 'http', port: 8080 }] }),
        ...slices('web', ['pod-b'], { ports: [{ name: 'admin', port: 8080 }], suffix: '-admin' }),
        ...slices('shop', ['pod-c']),
      ),
      connect('client', at(vip, 80), podA, once),
      connect('client', at(vip, 81), answered({ 'pod-b': 'any' }), once),
      connect('client', at(clusterIp(11), 80), answered({ 'pod-c': 'any' }), once),
      apply(
        ...slices('web', ['pod-a', 'pod-b', 'pod-c'], { ports: [{ name: 'http', port: 8080 }] }),
        ...slices('web', ['pod-a', 'pod-b', 'pod-c'], {
          ports: [{ name: 'admin', port: 8080 }],
          suffix: '-admin',
        }),
        ...slices('shop', ['pod-a', 'pod-b', 'pod-c']),
      ),
      connect('client', at(vip, 80), podA),
      connect('client', at(vip, 81), answered({ 'pod-b': 'any' })),
      connect('client', at(clusterIp(11), 80), answered({ 'pod-c': 'any' })),
    ],
  },
  storyOf('Session affinity holds for UDP and SCTP too', '5.8 5.11', { differsIn: hasNoSCTP }, [
    apply(
      service('web', {
        ports: [
          { name: 'udp', port: 53, protocol: 'UDP' },
          { name: 'sctp', port: 53, protocol: 'SCTP', nodePort: NODE_PORT },
        ],
        vips: [lb],
        spec: clientIpAffinity(60),
      }),
      ...slices('web', ['pod-b'], { ports: protocols }),
    ),
    connect('client', at(vip, 53, 'UDP'), answered({ 'pod-b': 'node' }), once),
    connect('client', at(lb, 53, 'SCTP'), answered({ 'pod-b': 'node' }), once),
    apply(...slices('web', ['pod-a', 'pod-b', 'pod-c'], { ports: protocols })),
    connect('client', at(vip, 53, 'UDP'), answered({ 'pod-b': 'node' })),
    connect('client', at(lb, 53, 'SCTP'), answered({ 'pod-b': 'node' })),
  ]),
  {
    name: 'Session affinity with policy Local: outside to a local endpoint, inside to any',
    covers: ['5.4', '5.8'],
    differsIn: hasOnePool,
    steps: [
      apply(reachable({ ...externalLocal, ...clientIpAffinity(60) }), ...onlyA),
      ...fromOutside.map((target) => connect('client', target, podA, once)),
      apply(...slices('web', ['pod-c'])),
      ...fromOutside.map((target) => connect('pod-b', target, answered({ 'pod-c': 'own' }), once)),
      apply(...all),
      ...fromOutside.map((target) => connect('pod-b', target, answered({ 'pod-c': 'own' }))),
      ...fromOutside.map((target) =>
        connect('client', target, answeredByOne({ 'pod-a': 'own', 'pod-b': 'own' })),
      ),
    ],
  },
  storyOf('Session affinity to an endpoint that is an address of the node', '5.8', [
    apply(sticky(), ...slices('web', ['node'])),
    connect('client', toVip, answered({ node: 'any' }), once),
    connect('pod-a', toVip, answered({ node: 'own' }), once),
    apply(...slices('web', ['node', 'pod-b', 'pod-c'])),
    connect('client', toVip, answered({ node: 'any' })),
    connect('pod-a', toVip, answered({ node: 'own' })),
  ]),
  {
    ...storyOf('Session affinity outlives a restart of the proxy', '5.8 12.48', [
      apply(sticky(), ...onlyA),
      connect('client', toVip, podA, once),
      restart(),
      apply(...all),
      connect('client', toVip, podA),
    ]),
    differsIn: forgetsAtRestart,
  },
];

const ends: readonly Story[] = [
  {
    name: 'Session affinity ends when its time is over, and each connection renews it',
    covers: ['5.8'],
    differsIn: remembersWhileConnected,
    steps: [
      apply(sticky(10), ...onlyA),
      connect('client', toVip, podA, eachClient),
      apply(...all),
      wait(5100, 'more than half of the timeout'),
      connect('client', toVip, podA, eachClient),
      wait(5100, 'more than the timeout since the first connection'),
      connect('client', toVip, podA, eachClient),
      apply(...onlyA, ...manyNowhere),
      wait(10_200, 'more than the timeout'),
      connect('client', toVip, chosenAgain('pod-a'), eachClient),
    ],
  },
  {
    ...storyOf('Session affinity ends with its endpoint, and does not come back with it', '5.8', [
      apply(stickyEverywhere, ...onlyA),
      ...everything.map((target) => connect('client', target, podA, eachClient)),
      apply(...slices('web', ['pod-b'])),
      connect('client', toVip, answered({ 'pod-b': 'node' })),
      apply(...onlyA, ...manyNowhere),
      ...everything.map((target) => connect('client', target, chosenAgain('pod-a'), eachClient)),
    ]),
    differsIn: remembersWhileDraining,
  },
  {
    ...storyOf('Session affinity ends when the last endpoint goes', '5.8', [
      apply(sticky(), ...onlyA),
      connect('client', toVip, podA, eachClient),
      apply(...slices('web', [])),
      connect('client', toVip, refused),
      apply(...onlyA, ...manyNowhere),
      connect('client', toVip, chosenAgain('pod-a'), eachClient),
    ]),
    differsIn: remembersWhileDraining,
  },
  storyOf('Session affinity ends with its Service', '5.8', [
    apply(sticky(), ...onlyA),
    connect('client', toVip, podA, eachClient),
    remove(sticky()),
    apply(sticky(), ...manyNowhere),
    connect('client', toVip, chosenAgain('pod-a'), eachClient),
  ]),
  {
    name: 'Session affinity is switched off on a live Service, and on again without a memory',
    covers: ['5.8'],
    differsIn: remembersWhileOff,
    steps: [
      apply(sticky(), ...onlyA),
      connect('client', toVip, podA, eachClient),
      apply(service('web'), ...all),
      connect('client', toVip, answered({ 'pod-a': 'any', 'pod-b': 'any', 'pod-c': 'any' })),
      apply(sticky(), ...onlyA, ...manyNowhere),
      connect('client', toVip, chosenAgain('pod-a'), eachClient),
    ],
  },
  storyOf('Session affinity is switched on on a live Service', '5.8', [
    apply(service('web'), ...all),
    connect('client', toVip, answered({ 'pod-a': 'any', 'pod-b': 'any', 'pod-c': 'any' })),
    apply(sticky(), ...onlyA),
    connect('client', toVip, podA, once),
    apply(...all),
    connect('client', toVip, podA),
  ]),
  storyOf('A longer timeout of session affinity holds from the next connection on', '5.8', [
    apply(sticky(1), ...onlyA),
    connect('client', toVip, podA, once),
    apply(sticky(60)),
    connect('client', toVip, podA, once),
    apply(...manyNowhere),
    wait(1300, 'more than the first timeout'),
    connect('client', toVip, podA),
  ]),
  {
    ...storyOf('A shorter timeout of session affinity holds from the next connection on', '5.8', [
      apply(sticky(60), ...onlyA),
      connect('client', toVip, podA, eachClient),
      apply(sticky(1)),
      connect('client', toVip, podA, eachClient),
      apply(...manyNowhere),
      wait(1300, 'more than the second timeout'),
      connect('client', toVip, chosenAgain('pod-a'), eachClient),
    ]),
    differsIn: remembersWhileConnected,
  },
  {
    name: 'A client that is bound to a remote endpoint gets a local one when the policy asks for it',
    covers: ['5.4', '5.8'],
    steps: [
      apply(stickyEverywhere, ...slices('web', ['pod-c'])),
      ...fromOutside.map((target) => connect('client', target, answered({ 'pod-c': 'any' }), once)),
      apply(
        reachable({ ...externalLocal, ...clientIpAffinity(60) }),
        ...slices('web', ['pod-b', 'pod-c']),
      ),
      ...fromOutside.map((target) => connect('client', target, answered({ 'pod-b': 'own' }))),
      apply(stickyEverywhere, ...slices('web', ['pod-b', 'pod-c'])),
      ...fromOutside.map((target) =>
        connect('client', target, answeredByAny({ 'pod-b': 'node', 'pod-c': 'node' })),
      ),
    ],
  },
  {
    name: 'A pod that is bound to a local endpoint leaves it when that terminates',
    covers: ['5.3', '5.8'],
    differsIn: hasOnePool,
    steps: [
      apply(reachable({ ...externalLocal, ...clientIpAffinity(60) }), ...onlyA),
      connect('pod-b', loadBalancer, podA, once),
      connect('client', loadBalancer, podA, once),
      apply(
        ...slices('web', [
          { at: 'pod-a', ready: false, serving: true, terminating: true },
          'pod-c',
        ]),
      ),
      connect('pod-b', loadBalancer, answered({ 'pod-c': 'own' })),
      connect('client', loadBalancer, answered({ 'pod-a': 'own' })),
    ],
  },
];

/** Each client comes by another frontend first. */
const bound = [
  connect('client', toVip, podA, once),
  connect('pod-b', frontends.nodePort, podA, once),
  connect('node', frontends.externalIp, podA, once),
  connect('node2', loadBalancer, podA, once),
];

const boundAgain = (target: Target): Step[] => [
  connect('client', target, podA),
  connect('pod-b', target, podA, once),
  connect('node', target, podA, once),
  connect('node2', target, podA, once),
];

/** A client keeps its endpoint whichever frontend of the Service port it comes by. */
const everywhere: readonly Story[] = [
  {
    name: 'A client keeps its endpoint by every address of the Service, whichever it came by first',
    covers: ['5.8'],
    differsIn: remembersAddresses,
    steps: [
      apply(stickyEverywhere, ...onlyA),
      ...bound,
      apply(...manyNowhere),
      ...[...everything, at(secondLB, 80)].flatMap(boundAgain),
    ],
  },
  {
    name: 'A client keeps its endpoint by every address of the Service across a restart',
    covers: ['5.8', '12.48'],
    differsIn: { ...remembersAddresses, ...forgetsAtRestart },
    steps: [
      apply(stickyEverywhere, ...onlyA),
      ...bound,
      restart(),
      apply(...manyNowhere),
      ...everything.flatMap(boundAgain),
    ],
  },
  {
    ...storyOf('A client keeps its endpoint at an address that the Service gets later', '5.8', [
      apply(sticky(), ...onlyA),
      connect('client', toVip, podA, once),
      apply(stickyEverywhere, ...manyNowhere),
      ...everything.map((target) => connect('client', target, podA, once)),
      apply(sticky()),
      connect('client', toVip, podA, once),
    ]),
    differsIn: remembersAddresses,
  },
  {
    ...storyOf('An endpoint that goes is forgotten at every address of the Service', '5.8', [
      apply(stickyEverywhere, ...onlyA),
      connect('client', toVip, podA, eachClient),
      apply(...slices('web', ['pod-b'])),
      apply(...onlyA, ...manyNowhere),
      ...everything.map((target) => connect('client', target, chosenAgain('pod-a'), eachClient)),
    ]),
    differsIn: remembersWhileDraining,
  },
  {
    ...storyOf('The time of session affinity is over at every address of the Service', '5.8', [
      apply(reachable(clientIpAffinity(1)), ...onlyA),
      connect('client', toVip, podA, eachClient),
      apply(...manyNowhere),
      wait(1300, 'more than the timeout'),
      ...everything.map((target) => connect('client', target, chosenAgain('pod-a'), eachClient)),
    ]),
    differsIn: remembersWhileConnected,
  },
  {
    name: 'With policy Local a client keeps the endpoint that it got through the ClusterIP, if local',
    covers: ['5.4', '5.8'],
    differsIn: remembersAddresses,
    steps: [
      apply(reachable({ ...externalLocal, ...clientIpAffinity(60) }), ...onlyA),
      connect('client', toVip, podA, once),
      apply(...all),
      ...fromOutside.map((target) =>
        connect('client', target, answered({ 'pod-a': 'own' }), { connections: 8 }),
      ),
      connect('client', toVip, podA),
    ],
  },
  {
    name: 'A client keeps an endpoint for each policy where none is right for both',
    covers: ['5.3', '5.4', '5.8'],
    differsIn: hasOnePool,
    steps: [
      apply(
        reachable({ ...externalLocal, ...clientIpAffinity(60) }),
        ...slices('web', [
          { at: 'pod-a', ready: false, serving: true, terminating: true },
          'pod-c',
        ]),
      ),
      connect('client', toVip, answered({ 'pod-c': 'node' }), once),
      connect('client', loadBalancer, answered({ 'pod-a': 'own' }), once),
      apply(...manyNowhere),
      connect('client', toVip, answered({ 'pod-c': 'node' }), once),
      connect('client', loadBalancer, answered({ 'pod-a': 'own' }), once),
      connect('client', toVip, answered({ 'pod-c': 'node' })),
      ...fromOutside.map((target) => connect('client', target, answered({ 'pod-a': 'own' }))),
    ],
  },
  {
    name: 'A pod keeps its local endpoint of policy Local inside, by addresses of policy Cluster too',
    covers: ['5.4', '5.8'],
    differsIn: remembersAddresses,
    steps: [
      apply(reachable({ ...internalLocal, ...clientIpAffinity(60) }), ...onlyA),
      connect('pod-b', toVip, podA, once),
      apply(...all, ...manyNowhere),
      ...everything.map((target) => connect('pod-b', target, podA, once)),
    ],
  },
];

export const affinityStories: readonly Story[] = [...sticks, ...ends, ...everywhere];

/** Broken Services of one cluster: what a command says of each, and what its packets meet. */
import { clusterIp, externalIp, lbVip, NODE_IP } from '../lab/addresses.ts';
import { type KubernetesObject, type ServiceOptions, service, slice } from '../lab/objects.ts';
import type { Outcome, Protocol } from '../lab/outcome.ts';

export interface Situation {
  readonly name: string;
  /** The number of its Service: its ClusterIP is clusterIp(number), its name `s-NUMBER`. */
  readonly number: number;
  readonly objects: readonly KubernetesObject[];
  /** The command, with `S` for the Service's name and `IP` for its ClusterIP. */
  readonly ask?: readonly string[];
  /** What its output says. */
  readonly cause: string | RegExp;
  /** Default: 1. */
  readonly code?: 0;
  readonly protocol?: Protocol;
  /** Where packets are sent; default: port 80 of the ClusterIP, from pod-b. */
  readonly to?: { readonly address: string; readonly port: number };
  readonly from?: 'pod-b' | 'client';
  /** What attempts come to. */
  readonly meets: readonly Outcome['kind'][];
}

type Endpoints = Parameters<typeof slice>[2];
type Slices = Parameters<typeof slice>[3];

/** One Service of IPv4 with one slice. */
function one(
  number: number,
  endpoints: Endpoints,
  options: ServiceOptions = {},
  ports: NonNullable<Slices>['ports'] = [{ port: 8080 }],
): KubernetesObject[] {
  return [
    service(`s-${number}`, { clusterIp: v4(number), ...options }),
    slice('IPv4', `s-${number}`, endpoints, { ports: ports ?? [] }),
  ];
}

function v4(number: number) {
  return { IPv4: clusterIp(number).IPv4 };
}

/** No program listens there. */
const silentPort = [{ port: 8090 }];
/** The test makes their routes a blackhole, and prohibit; the third has no server. */
export const blackhole = { IPv4: '10.244.9.9' };
export const prohibited = { IPv4: '10.244.9.10' };
const nowhere = { IPv4: '10.244.1.77' };
/** The test routes it by a machine that is not there. */
export const behindNobody = { IPv4: '10.244.8.8' };
export const nobody = '192.168.10.99';
/** No program accepts connections there. */
export const crowdedPort = 8099;
/** Large packets to it are lost on their way, without a word. */
export const narrowPort = 8092;
/** A firewall of the test drops what is forwarded to this port. */
export const guardedPort = 8091;
/** It drops what is for the first ClusterIP, and redirects what is for the second. */
export const guardedIP = clusterIp(134).IPv4;
export const takenIP = clusterIp(135).IPv4;

const byName: Readonly<Record<string, Omit<Situation, 'name'>>> = {
  'nothing is wrong': {
    number: 101,
    objects: one(101, ['pod-a']),
    ask: ['service', 'check', 'default/S'],
    cause: /10\.244\.1\.2:8080 +endpoint +node +yes +connected/,
    code: 0,
    meets: ['answered'],
  },
  'nothing listens at a numeric targetPort': {
    number: 102,
    objects: one(102, ['pod-a'], {}, silentPort),
    ask: ['service', 'check', 'default/S'],
    cause: /10\.244\.1\.2:8090 +endpoint +node +yes +refused +\S+ +nothing listens there/,
    meets: ['reset'],
  },
  'nothing listens, and a packet is followed': {
    number: 103,
    objects: one(103, ['pod-a'], {}, silentPort),
    ask: ['trace', 'default/S:80', '--from=node'],
    cause: 'It was refused by 10.244.1.2:8090: nothing listens there.',
    meets: ['reset'],
  },
  'nothing listens, and packets are counted by endpoint': {
    number: 104,
    objects: one(104, ['pod-a'], {}, silentPort),
    ask: ['trace', 'default/S:80', '--from=node', '-c', '3'],
    cause: /3 of 3 packets failed\n\n.*\n10\.244\.1\.2:8090 +3 +3 +0\n$/,
    meets: ['reset'],
  },
  'the selector is too wide: one of two does not listen': {
    number: 105,
    objects: one(105, ['pod-a', 'pod-b']),
    ask: ['service', 'check', 'default/S'],
    cause:
      /1 of 2 endpoints in use failed(?:.|\n)*10\.244\.1\.3:8080 +endpoint +node +yes +refused/,
    from: 'client',
    meets: ['answered', 'reset'],
  },
  'clients speak another protocol': {
    number: 106,
    objects: one(106, ['pod-a'], { ports: [{ port: 80, protocol: 'UDP' }] }, [
      { port: 8080, protocol: 'UDP' },
    ]),
    ask: ['explain', 'IP:80/TCP'],
    cause: 'is the ClusterIP of default/s-106, which has 80/UDP, not 80/TCP',
    meets: ['reset', 'unreachable'],
  },
  'nothing listens for datagrams': {
    number: 107,
    objects: one(107, ['pod-a'], { ports: [{ port: 80, protocol: 'UDP' }] }, [
      { port: 8090, protocol: 'UDP' },
    ]),
    ask: ['service', 'check', 'default/S'],
    cause: /UDP +10\.244\.1\.2:8090 +endpoint +node +yes +refused/,
    protocol: 'UDP',
    meets: ['unreachable'],
  },
  'it is published although its program is dead': {
    number: 115,
    objects: one(115, ['pod-b'], { spec: { publishNotReadyAddresses: true } }),
    ask: ['service', 'check', 'S'],
    cause: /10\.244\.1\.3:8080 +endpoint +node +yes +refused/,
    from: 'client',
    meets: ['reset'],
  },
  'the route to the endpoint is a blackhole': {
    number: 116,
    objects: one(116, [{ at: blackhole }]),
    ask: ['explain', 'default/S:80'],
    cause: 'Packets do not get to endpoint 10.244.9.9: its route is a blackhole',
    meets: ['timeout'],
  },
  'the route to the endpoint is a blackhole, and it is tried': {
    number: 117,
    objects: one(117, [{ at: blackhole }]),
    ask: ['service', 'check', 'default/S'],
    cause: /10\.244\.9\.9:8080 +endpoint +yes +blackhole/,
    meets: ['timeout'],
  },
  'the route to the endpoint is forbidden': {
    number: 118,
    objects: one(118, [{ at: prohibited }]),
    ask: ['service', 'check', 'default/S'],
    cause: /10\.244\.9\.10:8080 +endpoint +yes +prohibited/,
    meets: ['unreachable', 'timeout'],
  },
  'no controller makes EndpointSlices': {
    number: 127,
    objects: [service('s-127', { clusterIp: v4(127) })],
    ask: ['service', 'check', 'default/S'],
    cause: /10\.96\.0\.127:80 +clusterIP +refused +\S+ +it is rejected here: see Problem/,
    meets: ['reset', 'unreachable'],
  },
  'a firewall of others drops packets to the endpoint': {
    number: 128,
    objects: one(128, ['pod-a'], {}, [{ port: guardedPort }]),
    ask: ['trace', 'default/S:80', '--from=node'],
    cause: /dropped by rule \d+ of chain inet guard out/,
    meets: ['timeout'],
  },
  'a firewall of others drops packets, and the endpoint is tried': {
    number: 129,
    objects: one(129, ['pod-a'], {}, [{ port: guardedPort }]),
    ask: ['service', 'check', 'default/S', '--timeout=500ms'],
    cause: /10\.244\.1\.2:8091 +endpoint +node +yes +timeout +\S+ +its address answers at /,
    meets: ['timeout'],
  },
  'no machine has the address of the endpoint': {
    number: 131,
    objects: one(131, [{ at: nowhere, nodeName: 'node' }]),
    ask: ['service', 'check', 'default/S', '--timeout=500ms'],
    cause:
      /10\.244\.1\.77:8080 +endpoint +node +yes +timeout +\S+ +no machine has its address on cni0/,
    meets: ['timeout', 'unreachable'],
  },
  'a foreign firewall drops packets to the endpoint, before a client has sent one': {
    number: 133,
    objects: one(136, ['pod-a'], {}, [{ port: guardedPort }]),
    ask: ['service', 'show', 'default/s-136'],
    cause:
      /another program drops .* to endpoint 10\.244\.1\.2:8091\/TCP: rule \d+ of chain inet guard /,
    to: { address: clusterIp(136).IPv4, port: 80 },
    meets: ['timeout'],
  },
  'a firewall of others drops packets to the ClusterIP, by a set of ports': {
    number: 134,
    objects: one(134, ['pod-a']),
    ask: ['explain', 'IP:80'],
    cause: `drops packets of pods, and from outside, to ${guardedIP}:80/TCP: rule`,
    meets: ['timeout'],
  },
  'a rule of others takes connections to the ClusterIP to itself': {
    number: 135,
    objects: one(135, ['pod-a']),
    ask: ['problems'],
    cause: `redirects packets of pods, and from outside, to ${takenIP}:80/TCP: rule`,
    meets: ['reset'],
  },
  'the route to the endpoint is a blackhole, and all problems are listed': {
    number: 137,
    objects: one(137, [{ at: blackhole }]),
    ask: ['problems'],
    cause:
      /s-137 +no route +Packets do not get to endpoint 10\.244\.9\.9: its route is a blackhole/,
    meets: ['timeout'],
  },
  'the route to the endpoint is forbidden, and its Service is shown': {
    number: 138,
    objects: one(138, [{ at: prohibited }]),
    cause: 'Packets do not get to endpoint 10.244.9.10: its route is "prohibit"',
    meets: ['unreachable', 'timeout'],
  },
  'nothing is wrong, and each frontend is tried': {
    number: 139,
    objects: one(139, ['pod-a'], {
      ...{ vips: [{ IPv4: lbVip(9).IPv4 }], externalIps: [{ IPv4: externalIp(9).IPv4 }] },
      ports: [{ port: 80, nodePort: 30_139 }],
      spec: { type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: 30_939 },
    }),
    ask: ['service', 'check', 'default/S'],
    cause: new RegExp(
      [
        ...['0 of 1 endpoint in use failed', '0 of 4 connections through the Service failed'],
        ...[`${clusterIp(139).IPv4}:80 +clusterIP +connected`, ':80 +externalIP +connected'],
        `${NODE_IP.IPv4}:30139 +nodePort +connected`,
        ':30939 +health check +answered +\\S+ +load balancers choose this node',
      ].join('(?:.|\n)*'),
    ),
    code: 0,
    meets: ['answered'],
  },
  'large packets to one of two endpoints are lost': {
    number: 140,
    objects: one(140, ['pod-c'], {}, [{ port: narrowPort }]),
    ask: ['service', 'check', 'default/S', '--size=1400', '--timeout=700ms'],
    cause: /endpoint +node2 +yes +too large .* 1400 bytes do not arrive: the MTU/,
    meets: ['answered'],
  },
  'a program of the node accepts no connections': {
    number: 141,
    objects: one(141, [{ at: NODE_IP, nodeName: 'node' }], {}, [{ port: crowdedPort }]),
    ask: ['service', 'check', 'default/S', '--timeout=700ms'],
    cause: /endpoint +node +yes +timeout +\S+ +its accept queue is full: \d connections wait/,
    meets: ['timeout'],
  },
  'the next machine on the way to the endpoint is gone': {
    number: 142,
    objects: one(142, [{ at: behindNobody, nodeName: 'node2' }]),
    ask: ['service', 'check', 'default/S', '--timeout=700ms'],
    cause: `its next hop ${nobody} does not answer on`,
    meets: ['timeout', 'unreachable'],
  },
  'one of two servers of datagrams is silent': {
    number: 143,
    objects: one(143, ['pod-b', 'pod-a'], { ports: [{ port: 53, protocol: 'UDP' }] }, [
      { port: narrowPort, protocol: 'UDP' },
    ]),
    ask: ['service', 'check', 'default/S', '--timeout=700ms'],
    cause:
      /10\.244\.1\.3:8092 +endpoint +node +yes +timeout +\S+ +other endpoints of this port answer/,
    protocol: 'UDP',
    to: { address: clusterIp(143).IPv4, port: 53 },
    from: 'client',
    meets: ['answered', 'timeout'],
  },
};

export const situations = Object.entries(byName).map(([name, it]): Situation => ({ name, ...it }));

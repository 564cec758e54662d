import type { Address, CIDR } from '../net/address.ts';
import { type List, sameList } from '../net/list.ts';
import { sameDeal } from './deal.ts';
import { sameEndings } from './endings.ts';
import type {
  EndpointSlice,
  Forwarding,
  Frontend,
  Service,
  ServicePort,
  SlicePort,
} from './types.ts';

/** Deep equality; the order of pools and frontends matters. */
export function sameForwarding(a: Forwarding, b: Forwarding): boolean {
  if (a === b) return true;
  return (
    a.family === b.family &&
    a.servicePort.port === b.servicePort.port &&
    a.servicePort.protocol === b.servicePort.protocol &&
    a.servicePort.name === b.servicePort.name &&
    a.servicePort.namespace === b.servicePort.namespace &&
    a.affinityTimeoutSeconds === b.affinityTimeoutSeconds &&
    a.nodeInSourceRanges === b.nodeInSourceRanges &&
    a.healthCheckNodePort === b.healthCheckNodePort &&
    a.rulesOnly === b.rulesOnly &&
    sameFrontends(a.frontends, b.frontends) &&
    sameRanges(a.sourceRanges, b.sourceRanges) &&
    a.cluster.equals(b.cluster) &&
    a.local.equals(b.local) &&
    a.hairpin.equals(b.hairpin) &&
    sameEndpoints(a.maybeLocal, b.maybeLocal) &&
    a.serving.equals(b.serving) &&
    sameDeal(a.deal, b.deal) &&
    sameEndings(a.endings, b.endings)
  );
}

function sameEndpoints(a: Forwarding['maybeLocal'], b: Forwarding['maybeLocal']): boolean {
  return a === b || (a !== undefined && b?.equals(a) === true);
}

/** The order matters. */
export function sameFrontends(a: readonly Frontend[], b: readonly Frontend[]): boolean {
  return sameList(a, b, sameFrontend);
}

function sameFrontend(a: Frontend, b: Frontend): boolean {
  return (
    a.kind === b.kind &&
    a.port === b.port &&
    a.treatment === b.treatment &&
    a.pool === b.pool &&
    a.address?.key === b.address?.key
  );
}

/** Whether two records of one Service are equal; the order of lists matters. */
export function sameService(a: Service, b: Service): boolean {
  return (
    a.uid === b.uid &&
    a.createdMs === b.createdMs &&
    a.type === b.type &&
    a.internalTrafficPolicy === b.internalTrafficPolicy &&
    a.externalTrafficPolicy === b.externalTrafficPolicy &&
    a.healthCheckNodePort === b.healthCheckNodePort &&
    a.affinityTimeoutSeconds === b.affinityTimeoutSeconds &&
    a.isFastPathOff === b.isFastPathOff &&
    a.rulesOnly === b.rulesOnly &&
    a.awaitedLoadBalancer === b.awaitedLoadBalancer &&
    a.balancing?.balance === b.balancing?.balance &&
    a.balancing?.slowStartMs === b.balancing?.slowStartMs &&
    a.detection?.mode === b.detection?.mode &&
    a.detection?.probes === b.detection?.probes &&
    a.endings?.endAfterMs === b.endings?.endAfterMs &&
    a.endings?.keepsFlows === b.endings?.keepsFlows &&
    sameList(a.clusterIPs, b.clusterIPs, sameAddress) &&
    sameList(a.externalIPs, b.externalIPs, sameAddress) &&
    sameList(a.loadBalancerIPs, b.loadBalancerIPs, sameAddress) &&
    sameRanges(a.loadBalancerSourceRanges, b.loadBalancerSourceRanges) &&
    sameList(a.ports, b.ports, sameServicePort)
  );
}

function sameServicePort(a: ServicePort, b: ServicePort): boolean {
  return sameSlicePort(a, b) && a.nodePort === b.nodePort;
}

/** Whether two records of one EndpointSlice are equal; the order of endpoints matters. */
export function sameSlice(a: EndpointSlice, b: EndpointSlice): boolean {
  return (
    a.service === b.service &&
    a.family === b.family &&
    a.length === b.length &&
    a.triggerTimeMs === b.triggerTimeMs &&
    a.weight === b.weight &&
    a.addresses === b.addresses &&
    a.conditions === b.conditions &&
    sameList(a.ports, b.ports, sameSlicePort) &&
    sameHints(a.zoneHints, b.zoneHints) &&
    samePlaces(a.places, b.places)
  );
}

function sameSlicePort(a: SlicePort, b: SlicePort): boolean {
  return a.name === b.name && a.protocol === b.protocol && a.port === b.port;
}

function sameHints(a: EndpointSlice['zoneHints'], b: EndpointSlice['zoneHints']): boolean {
  if (a === undefined || b === undefined) return a === b;
  return sameList(a, b, (zones, others) => sameList(zones, others, Object.is));
}

function samePlaces(a: EndpointSlice['places'], b: EndpointSlice['places']): boolean {
  if (a === undefined || b === undefined) return a === b;
  return sameList(a, b, (x, y) => x === y || (x.node === y.node && x.zone === y.zone));
}

function sameAddress(a: Address, b: Address): boolean {
  return a.key === b.key;
}

/** The order matters. */
export function sameRanges(a: List<CIDR>, b: List<CIDR>): boolean {
  return sameList(a, b, sameRange);
}

function sameRange(a: CIDR, b: CIDR): boolean {
  return a.prefixLength === b.prefixLength && sameAddress(a.address, b.address);
}

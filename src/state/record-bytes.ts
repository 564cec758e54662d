/**
 * About how many bytes of the heap an object takes: its record, and what is made of it to be in
 * force. Measured by `npm run bench -- heap`.
 */
import { Columns, type List } from '../net/list.ts';
import type { EndpointSlice, Service, UnservedService } from './types.ts';

/** A Service with one port and its slice with one endpoint are 1.7 kB, with their names 1.9 kB. */
const serviceBytes = 1300;
const sliceBytes = 600;
const unservedBytes = 300;

/** An item of a list that is not in columns; equal short lists are one. */
const itemBytes = 60;

/** What a frontend takes beyond the first one. */
const frontendBytes = 300;

/** The frontends of a Service whatever its namespace asks for: a 64th of the default limit. */
const frontendsCounted = 312;

/** An endpoint in its slice, and in the pools of a Service port. */
const endpointBytes = 40;

/** The node and zone of an endpoint, which slices share if they are those of the cluster. */
const placeBytes = 80;

export function bytesOfService(service: Service | undefined): number {
  if (service === undefined) return 0;
  const { clusterIPs, externalIPs, key, loadBalancerIPs, loadBalancerSourceRanges, ports } =
    service;
  const addresses = clusterIPs.length + externalIPs.length + loadBalancerIPs.length;
  const nodePorts = service.type === 'ClusterIP' ? 0 : ports.length;
  const frontends = Math.min(ports.length * addresses + nodePorts, frontendsCounted);
  const lists = [externalIPs, loadBalancerIPs, loadBalancerSourceRanges, ports];
  const bytes = lists.reduce((sum, list) => sum + bytesOfList(list), 0);
  return serviceBytes + 3 * key.length + bytes + Math.max(0, frontends - 1) * frontendBytes;
}

export function bytesOfSlice(slice: EndpointSlice | undefined): number {
  if (slice === undefined) return 0;
  const { addresses, key, length, places, ports, zoneHints } = slice;
  const bytes = bytesOfList(ports) + (zoneHints === undefined ? 0 : bytesOfList(zoneHints));
  const ofPlaces = places === undefined ? 0 : placeBytes * length;
  return sliceBytes + 3 * key.length + bytes + addresses.length + endpointBytes * length + ofPlaces;
}

export function bytesOfUnserved(unserved: UnservedService | undefined): number {
  return unserved === undefined ? 0 : unservedBytes + 3 * unserved.key.length;
}

function bytesOfList(list: List<unknown>): number {
  if (list instanceof Columns) return list.bytes.length + list.text.length;
  return list.length * itemBytes;
}

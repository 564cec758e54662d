/**
 * Port ranges of Services: annotation `fairlead.io/port-range`. The Service port at which the range
 * begins keeps its frontends, and each of its addresses gets one more, for the whole range. There
 * the destination keeps its port.
 */
import type { EndpointList } from '../net/endpoint-list.ts';
import { madeAt } from '../net/made-at.ts';
import type { DealingHere } from './deal.ts';
import type { Forwarding, Frontend, Service, ServicePort } from './types.ts';

/** One port, or a range of them. */
export type Ports = Pick<Frontend, 'port' | 'lastPort'>;

/** Whether the port is at the beginning of its Service's range. */
export function beginsRange({ portRange }: Service, { port }: Pick<ServicePort, 'port'>): boolean {
  return portRange?.first === port;
}

/** Whether packets to this port of the frontend's address are for the frontend. */
export function hasPort({ port, lastPort = port }: Ports, one: number): boolean {
  return one >= port && one <= lastPort;
}

/** Of Forwardings with many frontends. */
const ranges = new WeakMap<readonly Frontend[], { readonly range: Frontend | undefined }>();
/** To look at this many is faster than the map. */
const fewFrontends = 16;

/** A range of ports of the Forwarding: at all its addresses they are the same. */
export function rangeIn({ frontends }: Forwarding): Frontend | undefined {
  const find = () => frontends.find(({ lastPort }) => lastPort !== undefined);
  if (frontends.length <= fewFrontends) return find();
  return madeAt(ranges, frontends, () => ({ range: find() })).range;
}

/**
 * Why the range of a port is not served; undefined: it is. `endpoints`: those of the port. What is
 * kept or limited for each frontend would count each port of a range.
 */
export function rangeRefusal(
  { affinityTimeoutSeconds, endings, isFastPathOff, limits }: Service,
  { port }: ServicePort,
  endpoints: EndpointList,
  here: DealingHere | undefined,
): string | undefined {
  if (here?.refusesRanges) return `${here.name} cannot do it`;
  if (affinityTimeoutSeconds > 0) return 'it has session affinity';
  if (limits !== undefined) return 'it limits connections';
  if (isFastPathOff) return 'it does not take the fast path';
  if (endings?.endAfterMs !== undefined || endings?.maxAgeMs !== undefined) {
    return 'it asks that connections end';
  }
  for (let i = 0; i < endpoints.length; i += 1) {
    const at = endpoints.port(i);
    if (at !== port)
      return `its targetPort is ${at}, and the range keeps ports: both must be ${port}`;
  }
  return undefined;
}

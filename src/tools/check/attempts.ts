/** What `fairlead service check` tries: endpoints of a Service, its frontends, its health check. */
import type { ServiceCheck } from '../../ask/check.ts';
import type { ServiceAnswer } from '../../ask/service.ts';
import type { Family } from '../../net/address.ts';

type Tried = ServiceCheck['tried'][number];
type Port = ServiceAnswer['ports'][number];

export interface Attempt extends Omit<Tried, 'to' | 'answer' | 'tookMs'> {
  readonly address: string;
  readonly number: number;
}

/** An address of this node that accepts node ports, by family. */
export type NodeAddresses = ReadonlyMap<Family, string>;

/** The most endpoints to try, those in use first. */
const endpointsMax = 100;
/** Connections to each frontend: the proxy selects the endpoints. */
const throughMax = 3;
/** The most frontends to try. */
const frontendsMax = 30;

/** By port, the frontends after the endpoints. `leftOut`: of both, beyond the limits. */
export function attemptsOf(
  service: ServiceAnswer,
  nodes: NodeAddresses,
): { readonly attempts: readonly Attempt[]; readonly leftOut: number } {
  const ports = service.ports
    .filter(({ protocol }) => protocol !== 'SCTP')
    .map((port) => [endpointsOf(port), frontendsOf(port, nodes)] as const);
  const endpoints = ports.flatMap(([one]) => one);
  const frontends = ports.flatMap(([, one]) => one);
  const chosen = new Set([
    ...endpoints.toSorted((a, b) => Number(b.used) - Number(a.used)).slice(0, endpointsMax),
    ...frontends.slice(0, frontendsMax),
  ]);
  const attempts = ports
    .flat(2)
    .filter((one) => chosen.has(one))
    .flatMap(({ times, ...one }) => Array.from({ length: times }, (): Attempt => one));
  const leftOut = endpoints.length + frontends.length - chosen.size;
  return { attempts: [...attempts, ...healthOf(service, nodes)], leftOut };
}

/** `times`: how often it is tried. */
type Repeated = Attempt & { readonly times: number };

function endpointsOf({ endpoints, family, name: port, protocol }: Port): Repeated[] {
  return endpoints.map(({ address, node, pod, port: number, usedBy }) => {
    const used = usedBy.length > 0;
    const where = { ...(pod && { pod }), ...(node && { node }) };
    return { port, protocol, family, what: 'endpoint', used, ...where, address, number, times: 1 };
  });
}

function frontendsOf(of: Port, nodes: NodeAddresses): Repeated[] {
  const { cluster, family, frontends, local, name: port, protocol } = of;
  const times = Math.min(throughMax, Math.max(1, cluster, local));
  return frontends.flatMap(({ address = nodes.get(family), heldBy, kind, port: number }) => {
    if (address === undefined || heldBy !== undefined) return [];
    const what = 'service' as const;
    return [{ port, protocol, family, what, frontend: kind, address, number, times }];
  });
}

/** The port that load balancers ask whether this node has endpoints. */
function healthOf({ healthCheckNodePort: number }: ServiceAnswer, nodes: NodeAddresses): Attempt[] {
  const [first] = nodes;
  if (number === undefined || first === undefined) return [];
  const [family, address] = first;
  return [{ port: '', protocol: 'TCP', family, what: 'health check', address, number }];
}

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

/** By port, the frontends after the endpoints. `leftOut`: endpoints beyond the limit. */
export function attemptsOf(
  service: ServiceAnswer,
  nodes: NodeAddresses,
): { readonly attempts: readonly Attempt[]; readonly leftOut: number } {
  const ports = service.ports.filter(({ protocol }) => protocol !== 'SCTP');
  const all = ports.flatMap(endpointsOf);
  const chosen = all.toSorted((a, b) => Number(b.used) - Number(a.used)).slice(0, endpointsMax);
  const frontends = ports.flatMap((port) => frontendsOf(port, nodes)).slice(0, frontendsMax);
  const places = ports.map(({ family, name, protocol }) => idOf(name, protocol, family));
  const order = ({ family, port, protocol, what }: Attempt): number =>
    2 * places.indexOf(idOf(port, protocol, family)) + Number(what === 'service');
  const attempts = [...chosen, ...frontends.flatMap(repeated)].sort((a, b) => order(a) - order(b));
  const leftOut = all.length - chosen.length;
  return { attempts: [...attempts, ...healthOf(service, nodes)], leftOut };
}

function idOf(...parts: readonly string[]): string {
  return parts.join('/');
}

function endpointsOf({ endpoints, family, name: port, protocol }: Port): Attempt[] {
  return endpoints.map(({ address, node, pod, port: number, usedBy }) => {
    const used = usedBy.length > 0;
    const where = { ...(pod && { pod }), ...(node && { node }) };
    return { port, protocol, family, what: 'endpoint', used, ...where, address, number };
  });
}

interface Through extends Attempt {
  readonly times: number;
}

function frontendsOf(of: Port, nodes: NodeAddresses): Through[] {
  const { cluster, family, frontends, local, name: port, protocol } = of;
  const times = Math.min(throughMax, Math.max(1, cluster, local));
  return frontends.flatMap(({ address = nodes.get(family), heldBy, kind, port: number }) => {
    if (address === undefined || heldBy !== undefined) return [];
    const what = 'service' as const;
    return [{ port, protocol, family, what, frontend: kind, address, number, times }];
  });
}

function repeated({ times, ...one }: Through): Attempt[] {
  return Array.from({ length: times }, () => one);
}

/** The port that load balancers ask whether this node has endpoints. */
function healthOf({ healthCheckNodePort: number }: ServiceAnswer, nodes: NodeAddresses): Attempt[] {
  const [first] = nodes;
  if (number === undefined || first === undefined) return [];
  const [family, address] = first;
  return [{ port: '', protocol: 'TCP', family, what: 'health check', address, number }];
}

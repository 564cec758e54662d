/**
 * Limits what one Service gets: a Service of 80 KB can ask for three million frontends. Limits
 * apply to one family, because each family has its own part of the kernel. The part of a Service
 * that is served within the limits is selected here, with the same result on all nodes.
 * `namespace-shares.ts` limits what the Services of a namespace get together.
 */
import type { Family } from '../net/address.ts';
import type { List } from '../net/list.ts';
import type { ServicePort } from './types.ts';

/** The limits of one Service in one family. */
export const noLimits = {
  frontends: Number.POSITIVE_INFINITY,
  /**
   * Endpoints of one frontend. They are sorted in one turn of the event loop, and never divided
   * between batches.
   */
  frontendEndpoints: Number.POSITIVE_INFINITY,
  /** Endpoints of all frontends together. An endpoint counts once for each of its frontends. */
  endpoints: Number.POSITIVE_INFINITY,
  /** Source ranges count once for each load-balancer frontend. */
  sourceRanges: Number.POSITIVE_INFINITY,
  /** Ports with session affinity or the balance `round-robin`; see `memoriesOfPort`. */
  affinityPorts: Number.POSITIVE_INFINITY,
};

export type ServiceLimits = Readonly<typeof noLimits>;

/** A Service asks for more than the limits permit. */
export interface Excess {
  readonly family: Family;
  readonly what: keyof ServiceLimits;
  readonly asked: number;
  readonly limit: number;
  /** What its namespace gets, where `limit` is a share of that; see `NamespaceShares`. */
  readonly namespaceLimit: number | undefined;
}

/** The numbers that determine a Service's frontends, as requested or as granted. */
interface FrontendCounts {
  readonly ports: number;
  /** The number of these ports that have a node port. */
  readonly nodePorts: number;
  /** Each port has a frontend at each of them. */
  readonly addresses: number;
}

export function countFrontends({ ports, nodePorts, addresses }: FrontendCounts): number {
  return ports * addresses + nodePorts;
}

/**
 * The frontends that a Service gets: first its ports at the first address, which is the ClusterIP,
 * then their node ports, then further addresses, each with all of these ports.
 */
export function allotFrontends(asked: List<ServicePort>, addresses: number, limit: number) {
  const all = { ports: asked.length, nodePorts: countNodePorts(asked), addresses };
  if (countFrontends(all) <= limit) return all;
  const ports = Math.min(all.ports, limit);
  const nodePorts = Math.min(countNodePorts(asked.slice(0, ports)), limit - ports);
  const further = Math.floor((limit - ports - nodePorts) / ports);
  return { ports, nodePorts, addresses: Math.min(addresses, 1 + further) };
}

function countNodePorts(ports: List<ServicePort>): number {
  let count = 0;
  for (const { nodePort } of ports) if (nodePort !== 0) count += 1;
  return count;
}

/**
 * The share of each of `sharers` if together they ask for `asked`: all, or an equal share of at
 * least 1.
 */
export function shareOf(asked: number, limit: number, sharers: number): number {
  if (asked <= limit) return Number.POSITIVE_INFINITY;
  return Math.max(1, Math.floor(limit / sharers));
}

/** Limits by default of what a Service has by multiplication. */
export const standardLimits = { frontends: 20_000, endpoints: 250_000 } as const;

/**
 * What a Service may have of products of what its objects name: ports, addresses and endpoints.
 * Where they name few, it is far less than `most`, so that a short object costs little.
 */
function inProportion(most: number, named: number): number {
  return Math.min(most, Math.floor(most / 8 + (most / 1024) * named));
}

/**
 * The limit of frontends, or of endpoints at frontends, of a Service whose objects name this number
 * of ports, addresses and endpoints. A frontend that has two pools may have each endpoint twice.
 */
export function limitOf(
  what: keyof typeof standardLimits,
  limits: Pick<ServiceLimits, typeof what>,
  named: number,
  pools: 1 | 2 = 1,
): number {
  const most = inProportion(Math.max(limits[what], standardLimits[what]), named);
  return Math.min(limits[what], Math.floor(most / pools));
}

/** The most slots of all pools of one Service in one family together. */
export const serviceSlotsMax = 65_536;
/** Those of a Service that asks for none, while endpoints do not answer. They are not counted. */
export const unaskedSlotsMax = serviceSlotsMax / 64;

/**
 * The most slots of a Service whose objects name this number of ports, addresses and endpoints
 * together: the tables of a short object are small.
 */
export function slotsWithin(named: number): number {
  return inProportion(serviceSlotsMax, named);
}

const named = {
  frontends: 'frontends',
  frontendEndpoints: 'endpoints at one frontend',
  endpoints: 'endpoints at its frontends',
  sourceRanges: 'source ranges at the frontends that they guard',
  affinityPorts: 'ports with session affinity or addresses with round-robin',
} as const satisfies Record<keyof ServiceLimits, string>;

/** `asks for 3002000 IPv4 frontends, and 20000 are the most`: for logs and events. */
export function formatExcess({ family, what, asked, limit, namespaceLimit }: Excess): string {
  const text = `asks for ${asked} ${family} ${named[what]}, and ${limit} are the most`;
  if (namespaceLimit === undefined) return text;
  return `${text} while its namespace asks for more than ${namespaceLimit}`;
}

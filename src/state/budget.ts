/**
 * How much one Service gets, whatever its objects ask for: a Service of 80 KB can name three
 * million frontends. Limits are for one family, because each family has its own part of the kernel.
 * Which part of a Service is served within the limits is decided here, with the same result on all
 * nodes.
 */
import type { Family } from '../net/address.ts';
import type { ServicePort } from './types.ts';

/** The most that one Service gets in one family. */
export interface ServiceLimits {
  readonly frontends: number;
  /**
   * Endpoints of one frontend. They are put in order in one turn of the event loop, and are never
   * divided between batches.
   */
  readonly frontendEndpoints: number;
  /** Endpoints of all frontends. One that several frontends lead to counts for each of them. */
  readonly endpoints: number;
  /** Source ranges count once for each load-balancer frontend. */
  readonly sourceRanges: number;
  /** Ports with session affinity. */
  readonly affinityPorts: number;
}

export const noLimits: ServiceLimits = {
  frontends: Number.POSITIVE_INFINITY,
  frontendEndpoints: Number.POSITIVE_INFINITY,
  endpoints: Number.POSITIVE_INFINITY,
  sourceRanges: Number.POSITIVE_INFINITY,
  affinityPorts: Number.POSITIVE_INFINITY,
};

/** A Service asks for more than it gets. */
export interface Excess {
  readonly family: Family;
  readonly what: keyof ServiceLimits;
  readonly asked: number;
  readonly limit: number;
}

/**
 * The numbers that make up a Service's frontends: those that it asks for, or those that it gets.
 */
interface FrontendCounts {
  readonly ports: number;
  /** Of these ports, those with a node port. */
  readonly nodePorts: number;
  /** Every port has a frontend at each of them. */
  readonly addresses: number;
}

export function countFrontends({ ports, nodePorts, addresses }: FrontendCounts): number {
  return ports * addresses + nodePorts;
}

/**
 * The frontends that a Service gets: first its ports at the first address, which is the ClusterIP;
 * then their node ports; then further addresses, each with all of these ports.
 */
export function allotFrontends(asked: readonly ServicePort[], addresses: number, limit: number) {
  const all = { ports: asked.length, nodePorts: countNodePorts(asked), addresses };
  if (countFrontends(all) <= limit) return all;
  const ports = Math.min(all.ports, limit);
  const nodePorts = Math.min(countNodePorts(asked.slice(0, ports)), limit - ports);
  const further = Math.floor((limit - ports - nodePorts) / ports);
  return { ports, nodePorts, addresses: Math.min(addresses, 1 + further) };
}

function countNodePorts(ports: readonly ServicePort[]): number {
  let count = 0;
  for (const { nodePort } of ports) if (nodePort !== 0) count += 1;
  return count;
}

/**
 * What each of `sharers` gets when together they ask for `asked`: all, or an equal share of 1 or
 * more.
 */
export function shareOf(asked: number, limit: number, sharers: number): number {
  if (asked <= limit) return Number.POSITIVE_INFINITY;
  return Math.max(1, Math.floor(limit / sharers));
}

const named = {
  frontends: 'frontends',
  frontendEndpoints: 'endpoints at one frontend',
  endpoints: 'endpoints at its frontends',
  sourceRanges: 'source ranges at its load-balancer frontends',
  affinityPorts: 'ports with session affinity',
} as const satisfies Record<keyof ServiceLimits, string>;

/** `asks for 3002000 IPv4 frontends, and 20000 are the most`: for logs and events. */
export function formatExcess({ family, what, asked, limit }: Excess): string {
  return `asks for ${asked} ${family} ${named[what]}, and ${limit} are the most`;
}

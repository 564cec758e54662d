import type { ServiceLimits } from '../../state/budget.ts';
import type { ModeName } from '../config.ts';
import type { FieldTable } from './spec.ts';

/**
 * The limits that 0 stands for. The first three allow as many ports as an object has room for,
 * which is 20,000: what a tenant can ask for otherwise is thousands of times more. Each port with
 * session affinity makes the commits of all others slower (docs/decisions/0015).
 */
export const serviceLimitDefaults = {
  frontends: 20_000,
  endpoints: 250_000,
  sourceRanges: 50_000,
  affinityPorts: 1000,
} as const;

/**
 * What 0 stands for in each mode: so many are planned in 50 ms, and committed well within 1 s. In
 * mode iptables an endpoint is a chain and three rules, elsewhere an element or a real server.
 */
export const frontendEndpointDefaults = {
  nftables: 10_000,
  ipvs: 10_000,
  iptables: 5000,
  userspace: 10_000,
} as const satisfies Record<ModeName, number>;

type Limit = keyof ServiceLimits;

const defaultRules: Readonly<Record<Limit, string>> = {
  frontends: `0 = the default, ${serviceLimitDefaults.frontends}`,
  frontendEndpoints:
    `0 = the default, ${frontendEndpointDefaults.nftables}; ` +
    `in mode iptables ${frontendEndpointDefaults.iptables}`,
  endpoints: `0 = the default, ${serviceLimitDefaults.endpoints}`,
  sourceRanges: `0 = the default, ${serviceLimitDefaults.sourceRanges}`,
  affinityPorts: `0 = the default, ${serviceLimitDefaults.affinityPorts}`,
};

const limit = (what: Limit, meaning: string) =>
  ({
    type: 'int32',
    bounds: { kind: 'not-negative' },
    rules: defaultRules[what],
    errorPath: `ServiceLimits.${what}`,
    origin: 'own',
    meaning,
  }) as const;

/** How much one Service may take. */
export const limitFields = {
  'serviceLimits.frontends': limit(
    'frontends',
    'The most frontends (an address and port, or a node port) of one Service in one family. Of a ' +
      'Service with more, the first ports are served at the ClusterIP, then at node ports, then ' +
      'at as many further addresses as fit.',
  ),
  'serviceLimits.frontendEndpoints': limit(
    'frontendEndpoints',
    'The most endpoints of one frontend of a Service. Of a port with more, those on this node are ' +
      'served, then the first by the names of EndpointSlices.',
  ),
  'serviceLimits.endpoints': limit(
    'endpoints',
    'The most endpoints of one Service in one family, counted once for each frontend. Of a ' +
      'Service with more, each frontend gets the same number: those on this node, then the first ' +
      'by the names of EndpointSlices.',
  ),
  'serviceLimits.sourceRanges': limit(
    'sourceRanges',
    'The most source ranges of one Service in one family, counted once for each load-balancer ' +
      'frontend. Of a Service with more, the first ranges are let in.',
  ),
  'serviceLimits.affinityPorts': limit(
    'affinityPorts',
    'The most ports with session affinity of one Service in one family. Of a Service with more, ' +
      'the first ports remember their clients.',
  ),
} as const satisfies FieldTable;

/** Forwardings in few words, for tests of the planner. */
import type { Family } from '../../../../src/net/address.ts';
import { EndpointList } from '../../../../src/net/endpoint-list.ts';
import {
  type FrontendsByFamily,
  FrontendsInForce,
} from '../../../../src/state/frontends-in-force.ts';
import { allPaths } from '../../../../src/state/paths.ts';
import { type Forwarding, type Frontend, forwardingKey } from '../../../../src/state/types.ts';
import { address, cidr } from '../../state/build.ts';
import { config as anyConfig } from '../config.ts';
import type { Forwardings } from './cluster.ts';

export const config = { ...anyConfig, dropInvalid: true, localDetector: { kind: 'none' } } as const;
export const environment = { serviceCIDRs: [], nodePortAddresses: 'all' } as const;

export function pool(...hosts: readonly number[]): EndpointList {
  return EndpointList.of(
    'IPv4',
    hosts.map((host) => ({ address: Uint8Array.of(10, 0, host >> 8, host & 0xff), port: 8080 })),
  );
}

export function clusterIP(text: string, paths: keyof typeof allPaths = 'inside'): Frontend {
  return { kind: 'clusterIP', address: address(text), port: 80, paths: allPaths[paths] };
}

export function forwarding(name: string, cluster: EndpointList, fields: Partial<Forwarding> = {}) {
  const none = EndpointList.empty.IPv4;
  return {
    key: `ns/${name}/TCP`,
    servicePort: { namespace: 'ns', name, port: '', protocol: 'TCP' },
    family: 'IPv4',
    frontends: [clusterIP('10.96.0.1')],
    cluster,
    local: none,
    hairpin: none,
    serving: cluster,
    affinityTimeoutSeconds: 0,
    sourceRanges: [],
    nodeInSourceRanges: false,
    rulesOnly: false,
    healthCheckNodePort: 0,
    ...fields,
  } as const satisfies Forwarding;
}

/** More blocks than a chain has rules for. */
export const many = Array.from({ length: 9 }, (_, i) => `203.0.113.${i * 2}/32`);

/** A Service at a load-balancer address of its own, whose ranges are a set. */
export function guarded(name: string, host: number, ...ranges: readonly string[]): Forwarding {
  return few(name, host, ...ranges, ...many);
}

/** The same with these ranges alone. */
export function few(name: string, host: number, ...ranges: readonly string[]): Forwarding {
  const at = address(`198.51.100.${host}`);
  const base = { kind: 'loadBalancerIP', address: at, paths: allPaths.outside } as const;
  const frontends = [80, 81].map((port) => ({ ...base, port }));
  return forwarding(name, pool(1), { frontends, sourceRanges: ranges.map((text) => cidr(text)) });
}

export function all(...forwardings: readonly Forwarding[]): Forwardings {
  return new Map(forwardings.map((one) => [forwardingKey(one.servicePort), one]));
}

export function byFrontend(inForce: Forwardings, family: Family = 'IPv4'): FrontendsByFamily {
  const frontends = new FrontendsInForce(family);
  for (const one of inForce.values()) frontends.changed(undefined, one);
  return { [family]: frontends };
}

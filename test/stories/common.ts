/** What stories of several topics share. */
import { clusterIp, externalIp, lbVip, NODE_IP, nowhere } from '../lab/addresses.ts';
import { type KubernetesObject, type ServiceOptions, service, slices } from '../lab/objects.ts';
import { at, type Expectation, type Target } from '../lab/story.ts';

export const vip = clusterIp(10);
export const lb = lbVip(1);
export const external = externalIp(1);
export const NODE_PORT = 30080;

/** The four kinds of frontend of `reachable`. */
export const frontends = {
  clusterIp: at(vip, 80),
  nodePort: at(NODE_IP, NODE_PORT),
  loadBalancer: at(lb, 80),
  externalIp: at(external, 80),
} as const satisfies Record<string, Target>;

/** What the outside connects to. */
export const fromOutside = [frontends.nodePort, frontends.loadBalancer, frontends.externalIp];

/** The Service `web` with every kind of frontend. */
export function reachable(
  spec: Record<string, unknown> = {},
  options: ServiceOptions = {},
): KubernetesObject {
  return service('web', {
    ports: [{ port: 80, nodePort: NODE_PORT }],
    vips: [lb],
    externalIps: [external],
    ...options,
    spec,
  });
}

export const externalLocal = { externalTrafficPolicy: 'Local' };
export const internalLocal = { internalTrafficPolicy: 'Local' };

/**
 * Enough unreachable endpoints of `web` that several clients without affinity never all get their
 * former endpoint again. More take mode iptables seconds: each is a chain and a list of clients.
 */
export const manyNowhere: readonly KubernetesObject[] = slices(
  'web',
  Array.from({ length: 60 }, (_, n) => ({ at: nowhere(n) })),
  { suffix: '-nowhere' },
);

/** The outcome of a destination without rules: node and router send it back and forth. */
export const unprogrammed = { kind: 'unreachable', icmp: 'time-exceeded' } as const;

/**
 * What becomes of an address of Services that none has, and of a port that the Service of an
 * address does not have, in modes that know all such addresses. Others leave it to the routes: then
 * it is `unprogrammed`.
 */
export const unallocated: Expectation = { kind: 'silence' };
export const unknownPort: Expectation = { kind: 'refused' };

/** The steps of several targets. */
export function each<T, S>(items: readonly T[], step: (item: T) => S): S[] {
  return items.map(step);
}

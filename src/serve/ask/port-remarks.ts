/** What determines the endpoints of a Service port, each a sentence. */
import { choose } from '../../state/categorise.ts';
import type { Seen } from '../../state/resolve.ts';
import { whyIgnored } from '../../state/topology.ts';

/** What determines the endpoints of a port. */
export function portRemarks(seen: Seen, zone: string): string[] {
  const { external, internal } = seen.policy;
  return [
    ...(internal === 'Local' ? ['Pods of this node reach endpoints of this node only.'] : []),
    ...(external === 'Local'
      ? ['From outside, endpoints of this node only are reached, and see the client’s address.']
      : []),
    ...elsewhere(seen),
    ...endpointRemarks(seen, zone),
  ];
}

/** A node without endpoints is not a problem if load balancers ask for them. */
function elsewhere({ forwarding: { cluster, frontends, healthCheckNodePort, local } }: Seen) {
  const isLocal = frontends.some(({ treatment }) => treatment === 'external-local');
  if (!isLocal || healthCheckNodePort === 0 || local.length > 0 || cluster.length === 0) return [];
  return [
    `This node has no endpoint: load balancers see that at node port ${healthCheckNodePort}, and send nothing here.`,
  ];
}

/** What the endpoints themselves determine: topology, hints, readiness. */
export function endpointRemarks({ candidates, policy }: Seen, zone: string): string[] {
  const { flags } = candidates;
  const { cluster, local } = choose(flags, policy);
  const ignored = cluster && whyIgnored(flags, zone);
  const isLast = [cluster, local].some((choice) => {
    return choice?.standard === 'serving' && flags.some(choice.takes);
  });
  return [
    ...(cluster?.topology === 'SameNode' ? ['Hints choose endpoints for this node.'] : []),
    ...(cluster?.topology === 'SameZone' ? [`Hints choose endpoints for zone ${zone}.`] : []),
    ...(ignored === undefined ? [] : [`Hints are ignored: ${ignored}.`]),
    ...(isLast ? ['Where none is ready, endpoints are used that terminate and still serve.'] : []),
  ];
}

/** What determines the endpoints of a Service port, each a sentence. */
import { counted } from '../../ask/words.ts';
import type { ModeFacts } from '../../modes/mode.ts';
import { formatPorts } from '../../net/host-port.ts';
import { choose } from '../../state/categorise.ts';
import { formatFallback } from '../../state/deal.ts';
import { guards } from '../../state/guards.ts';
import { isElsewhere } from '../../state/paths.ts';
import { beginsRange } from '../../state/port-range.ts';
import type { Seen } from '../../state/resolve.ts';
import { whyIgnored } from '../../state/topology.ts';
import type { Forwarding, Service } from '../../state/types.ts';

/** The mode that runs, as far as it ends connections. */
type Ending = Pick<ModeFacts, 'usesIPVS'>;

/** What determines the endpoints of a port. */
export function portRemarks(seen: Seen, zone: string, mode: Ending): string[] {
  const { external, internal } = seen.policy;
  return [
    ...(internal === 'Local' ? ['Pods of this node reach endpoints of this node only.'] : []),
    ...(external === 'Local'
      ? ['From outside, endpoints of this node only are reached, and see the client’s address.']
      : []),
    ...dealRemarks(seen.forwarding),
    ...endingRemarks(seen.forwarding, mode),
    ...elsewhere(seen),
    ...endpointRemarks(seen, zone),
  ];
}

/** As with kube-proxy, ranges of one family limit no clients of the other. */
export function rangeRemarks(
  { guardsAll, loadBalancerSourceRanges: ranges }: Service,
  { forwarding: { family, frontends } }: Seen,
): string[] {
  if (ranges.length === 0) {
    return guardsAll ? ['There are no loadBalancerSourceRanges: all clients are let in.'] : [];
  }
  const hasOwn = ranges.some(({ address }) => address.family === family);
  const isAny = frontends.some(({ kind }) => guards(guardsAll, kind));
  if (!hasOwn && isAny) {
    return [`loadBalancerSourceRanges has no range of ${family}: all clients of it are let in.`];
  }
  return guardsAll ? ['loadBalancerSourceRanges count for node ports and external IPs, too.'] : [];
}

/** How connections are shared out, where an annotation decides. */
export function dealRemarks({ deal, ...pools }: Forwarding): string[] {
  if (deal === undefined) return [];
  const fallback = formatFallback(deal);
  const { asked, balance } = deal;
  const isDone = asked === balance && fallback === undefined;
  const slots = (['cluster', 'local'] as const)
    .filter((pool) => deal[pool].length !== pools[pool].length)
    .map((pool) => {
      const { length } = pools[pool];
      return `The pool ${pool} has ${deal[pool].length} slots for ${counted(length, 'endpoint')}.`;
    });
  return [
    ...(fallback === undefined ? [] : [`${fallback[0]!.toUpperCase()}${fallback.slice(1)}.`]),
    ...(isDone ? [`Connections are shared out by ${asked}, as an annotation asks.`] : []),
    ...slots,
  ];
}

/** What becomes of the range of ports that begins at the port. */
export function portRangeRemarks(service: Service, { port, rangeRefusal }: Seen): string[] {
  const { portRange } = service;
  if (portRange === undefined || !beginsRange(service, port)) return [];
  const range = formatPorts({ port: portRange.first, lastPort: portRange.last });
  return rangeRefusal === undefined
    ? [`It has the ports ${range}; endpoints get connections at the same port.`]
    : [`The ports ${range} are not served: ${rangeRefusal}.`];
}

/** What ends connections, where an annotation decides. */
export function endingRemarks({ endings }: Forwarding, { usesIPVS }: Ending): string[] {
  if (endings === undefined) return [];
  const { endAfterMs = 0, kept, keepsFlows, maxAgeMs } = endings;
  const flows = 'Flows stay with an endpoint that terminates, as long as it serves.';
  const ended = `Connections are ended ${endAfterMs / 1000} s after their endpoint has left.`;
  const old = usesIPVS
    ? 'Mode ipvs does not end connections by their age.'
    : `Connections are ended when they are about ${(maxAgeMs ?? 0) / 1000} s old.`;
  return [
    ...(kept === undefined ? [] : [ended]),
    ...(maxAgeMs === undefined ? [] : [old]),
    ...(keepsFlows ? [flows] : []),
  ];
}

/** A node without endpoints is not a problem if load balancers ask for them. */
function elsewhere({ forwarding: { frontends, healthCheckNodePort } }: Seen): string[] {
  const isNotHere = frontends.some(({ paths }) => isElsewhere(paths));
  if (!isNotHere || healthCheckNodePort === 0) return [];
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

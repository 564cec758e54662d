/** Why the node has not routed a packet on that its rules let through: looked up on this node. */

import type { FolderFiles } from '../../host/files.ts';
import { notForwarded, portsWithoutHairpin } from '../../host/machine-checks.ts';
import type { FindRoutes } from '../../host/reach.ts';
import { type Family, formatAddress } from '../../net/address.ts';
import { sameBytes } from '../../net/bytes.ts';

interface Unrouted {
  readonly family: Family;
  /** The interface that it came in by; undefined: the node itself sent it. */
  readonly interface: string | undefined;
  readonly source: Uint8Array;
  readonly destination: Uint8Array;
}

export type FindFault = (packet: Unrouted) => Promise<string>;

interface Machine extends FolderFiles {
  readonly routesTo: FindRoutes;
}

/** The causes that are found, which follow a colon. */
export function faultFinder(machine: Machine): FindFault {
  return async (packet) => {
    const found = [
      ...hairpin(machine, packet),
      ...forwarding(machine, packet),
      ...(await route(machine, packet)),
    ];
    // The others are certain.
    const causes = found.length > 0 ? found : reversePath(machine, packet);
    return causes.length > 0
      ? causes.join('; ')
      : 'there is a route, and neither forwarding nor rp_filter explains it';
  };
}

/** The client is its own endpoint: the bridge would have to send it back by the port it came by. */
function hairpin(machine: Machine, packet: Unrouted): string[] {
  const { interface: bridge, destination, source } = packet;
  if (bridge === undefined || !sameBytes(source, destination)) return [];
  const ports = portsWithoutHairpin(machine, bridge);
  if (ports.length === 0) return [];
  return [
    `it is for its own sender, and bridge ${bridge} sends nothing back by the port that it came ` +
      `by (hairpin_mode is 0: ${ports.join(', ')})`,
  ];
}

function forwarding(machine: Machine, { family, interface: name }: Unrouted): string[] {
  return name === undefined ? [] : notForwarded(machine, family);
}

async function route({ routesTo }: Machine, { destination, family }: Unrouted): Promise<string[]> {
  const to = formatAddress(destination);
  const [found] = await routesTo([to], family);
  return found === 'found' ? [] : [`${found!.replace('_', ' ')} (ip route get ${to})`];
}

/** Of both settings the higher one applies (Documentation/networking/ip-sysctl.rst). */
function reversePath(machine: Machine, packet: Unrouted): string[] {
  const { family, interface: name, source } = packet;
  if (family !== 'IPv4' || name === undefined) return [];
  const of = (one: string) => Number(machine.read(`/proc/sys/net/ipv4/conf/${one}/rp_filter`) ?? 0);
  if (Math.max(of('all'), of(name)) !== 1) return [];
  const from = formatAddress(source);
  return [`rp_filter is 1 for ${name}, which lets ${from} in only if it is the way back to it`];
}

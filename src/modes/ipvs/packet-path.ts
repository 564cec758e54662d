/** Which objects of this mode do what to the packets of a frontend. */
import { NF_INET } from '../../kernel/nft/constants.ts';
import type { Family } from '../../net/address.ts';
import { cidrContains, formatEndpoint } from '../../net/address.ts';
import { type ClientKind, isRefusal } from '../../state/paths.ts';
import { sourceRangesTypes } from '../nft-table/source-ranges.ts';
import {
  type Destination,
  nftKey,
  nftObject,
  type PacketPath,
  type PathDescriber,
  type PathObjects,
  packetPathOf,
} from '../packet-path.ts';
import { ipvsadmOption, setDefinitions, tableName } from './layout.ts';

export const describer: PathDescriber = {
  endpointHook: NF_INET.LOCAL_IN,
  describe(config, to, client) {
    const path = asIPVSCan(packetPathOf(config, to, client), to, client);
    return { ...path, objects: objectsOf(to, client) };
  },
  unclaimed(_config, { serviceCIDRs }, address, taken) {
    const { family } = address;
    if (taken.size > 0) return { end: 'rejected', object: object(family, 'vips') };
    const isKnown = serviceCIDRs.some((cidr) => cidrContains(cidr, address));
    if (!isKnown) return undefined;
    return { end: 'dropped', object: object(family, 'service-cidrs') };
  },
  typesOf: (family, _table, set) =>
    Object.entries(setDefinitions(family)).find(([name]) => name === set)?.[1] ??
    sourceRangesTypes(family, set),
};

/** A virtual service has one set of real servers, for all clients (README.md in this folder). */
function asIPVSCan(path: PacketPath, to: Destination, client: ClientKind): PacketPath {
  const { outside } = to.frontend.paths;
  const pool = isRefusal(outside.to) ? path.pool : outside.to;
  if (client !== 'node') return { ...path, pool };
  const because = 'a connection of the node to a virtual service comes from its address';
  return { ...path, pool, isMasqueraded: true, because };
}

function objectsOf({ forwarding, frontend, address }: Destination, by: ClientKind): PathObjects {
  const { family, servicePort } = forwarding;
  const { paths, port } = frontend;
  const at = formatEndpoint(address.bytes, port);
  const service = `ipvsadm -l ${ipvsadmOption[servicePort.protocol]} ${at}`;
  const element = (set: string): string =>
    `${object(family, set)} { ${nftKey(address, servicePort.protocol, port)} }`;
  const refusals = { reject: 'rejected', drop: 'dropped' };
  const refusal = isRefusal(paths.pod.to) ? refusals[paths.pod.to] : 'dropped-outside';
  return {
    sourceRanges: nftObject('map', family, tableName, 'firewall-ips'),
    frontend: service,
    refusal: element(refusal),
    affinity: `${service} (persistent)`,
    endpoints: service,
    mark: element(by === 'node' ? 'services' : paths.pod.isMasqueraded ? 'external' : 'internal'),
    hairpin: object(family, 'hairpin'),
  };
}

function object(family: Family, set: string): string {
  return nftObject('set', family, tableName, set);
}

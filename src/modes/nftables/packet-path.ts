/** Which objects of this mode act on the packets of a frontend, as nft names them. */
import { NF_INET } from '../../kernel/nft/constants.ts';
import { printVerdict } from '../../kernel/nft/print-verdict.ts';
import { cidrContains, type Family } from '../../net/address.ts';
import { keyPort } from '../../state/frontend-key.ts';
import { sourceRangesTypes } from '../nft-table/source-ranges.ts';
import {
  nftKey,
  nftObject,
  type PacketPath,
  type PathDescriber,
  type PathObjects,
  packetPathOf,
} from '../packet-path.ts';
import { rememberedEndpoint } from './affinity-fill.ts';
import { affinityTypes, memoryName } from './affinity-objects.ts';
import { ChainClasses } from './chain-classes.ts';
import {
  elementOf,
  frontendElements,
  partOf,
  type VerdictPart,
  verdictKinds,
} from './frontends.ts';
import { setDefinitions, tableName } from './layout.ts';

export const describer: PathDescriber = {
  endpointHook: NF_INET.FORWARD,
  describe(config, to, client) {
    const path = packetPathOf(config, to, client);
    return { ...path, objects: objectsOf(config, to, path) };
  },
  unclaimed({ table = tableName }, { serviceCIDRs }, address, taken) {
    const { family } = address;
    const object = objectIn(table);
    if (taken.has('clusterIP')) {
      return { end: 'rejected', object: object('set', family, 'cluster-ips') };
    }
    const isKnown = serviceCIDRs.some((cidr) => cidrContains(cidr, address));
    return isKnown ? { end: 'dropped', object: object('set', family, 'service-cidrs') } : undefined;
  },
  typesOf: (family, _table, set) =>
    Object.entries(setDefinitions(family)).find(([name]) => name === set)?.[1] ??
    affinityTypes(family, set) ??
    sourceRangesTypes(family, set),
  remembered: (kernel, { table = tableName }, { family, servicePort }, pool, client) =>
    rememberedEndpoint(kernel, { family, table }, memoryName(servicePort, pool), client.bytes),
};

type Given = Parameters<PathDescriber['describe']>;

function objectsOf(
  config: Given[0],
  { forwarding, frontend }: Given[1],
  { pool }: PacketPath,
): PathObjects {
  const { family, frontends, servicePort } = forwarding;
  const elements = frontendElements(new ChainClasses(config), forwarding);
  const own = elements[frontends.indexOf(frontend)]!;
  const { chains, maps } = own;
  const object = objectIn(config.table ?? tableName);
  const key = nftKey(frontend.address, servicePort.protocol, keyPort(frontend));
  const element = (part: VerdictPart): string | undefined => {
    const verdict = verdictKinds[part].of(own);
    if (verdict === undefined) return undefined;
    const { set } = elementOf(own, part);
    return `${object('map', family, set)} { ${key} : ${printVerdict(verdict.code, verdict.chain)} }`;
  };
  const part = partOf(pool, frontend);
  const lead = chains.at(-1);
  return {
    sourceRanges: element('firewall'),
    frontend: element('verdict') ?? element('range'),
    refusal: element('refusal') ?? element('rangeRefusal'),
    affinity: object('map', family, memoryName(servicePort, pool)),
    endpoints: object('map', family, part === 'local' ? maps.localEndpoints : maps.endpoints),
    mark: lead && object('chain', family, lead.name),
    hairpin: object('set', family, 'hairpin'),
  };
}

function objectIn(table: string) {
  return (kind: 'chain' | 'map' | 'set', family: Family, name: string): string =>
    nftObject(kind, family, table, name);
}

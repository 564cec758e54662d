/** The elements and chains of a Forwarding, as nft names them. */
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { printComment, printVerdict } from '../../kernel/nft/print-verdict.ts';
import { familyWord } from '../../kernel/nft/words.ts';
import { formatAddress } from '../../net/address.ts';
import type { EndpointList } from '../../net/endpoint-list.ts';
import { keyPort } from '../../state/frontend-key.ts';
import type { Forwarding, Frontend } from '../../state/types.ts';
import { isNamedSet } from '../nft-table/objects.ts';
import {
  commentOf,
  elementOf,
  type FrontendElements,
  objectsOfFrontend,
  verdictKinds,
  verdictParts,
} from './frontends.ts';
import type { SetName } from './layout.ts';

/** `name`: of the table. `elements` are those of the Forwarding's frontends, in their order. */
export function describe(
  name: string,
  forwarding: Forwarding,
  elements: readonly FrontendElements[],
): readonly string[] {
  const table = `${familyWord(NFPROTO[forwarding.family])} ${name}`;
  const { protocol } = forwarding.servicePort;
  const lines = elements.flatMap((one, i) => {
    const words = keyWords(forwarding.frontends[i]!, protocol.toLowerCase());
    return elementLines(table, one, words);
  });
  const names = elements.flatMap((one) =>
    objectsOfFrontend(one).map((object) => {
      if (!isNamedSet(object)) return `chain ${table} ${object.name}`;
      const { definition, elements } = object;
      return `${elements === undefined ? 'map' : 'set'} ${table} ${definition.name}`;
    }),
  );
  return [...lines, ...new Set(names)];
}

interface KeyWords {
  readonly key: string;
  /** The protocol, if its name ends that of the map: some maps exist once for each protocol. */
  readonly learnKey: string;
}

function keyWords(frontend: Frontend, protocol: string): KeyWords {
  const { address } = frontend;
  const port = keyPort(frontend);
  const nodePort = `${protocol} . ${port}`;
  if (address === undefined) return { key: nodePort, learnKey: nodePort };
  const text = formatAddress(address.bytes);
  return { key: `${text} . ${nodePort}`, learnKey: `${text} . ${port}` };
}

function elementLines(table: string, one: FrontendElements, { key, learnKey }: KeyWords): string[] {
  const verdicts = verdictParts.flatMap((part) => {
    const verdict = verdictKinds[part].of(one);
    if (verdict === undefined) return [];
    const words = part === 'learn' ? learnKey : key;
    const { set } = elementOf(one, part);
    const left = `${words}${printComment(commentOf(one, part))}`;
    return [`map ${table} ${set} { ${left} : ${printVerdict(verdict.code, verdict.chain)} }`];
  });
  const pool = (set: SetName, endpoints: EndpointList): string[] =>
    endpoints.length === 0
      ? []
      : [`map ${table} ${set}, ${endpoints.length} elements { ${key} . INDEX : ENDPOINT }`];
  return [
    ...verdicts,
    ...pool(one.maps.endpoints, one.endpoints),
    ...pool(one.maps.localEndpoints, one.local),
  ];
}

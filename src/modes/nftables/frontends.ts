/** A Forwarding as the elements that this mode keeps for it. Pure. */
import type { ChainDefinition } from '../../kernel/nft/chain.ts';
import { IPPROTO } from '../../kernel/nft/constants.ts';
import { EndpointList } from '../../state/endpoint-list.ts';
import type { Interval } from '../../state/interval.ts';
import type { Forwarding, Frontend } from '../../state/types.ts';
import { allowedClients, destinationKey } from '../elements.ts';
import type { ChainClasses } from './chain-classes.ts';
import { type Place, placeOf } from './places.ts';

/** One frontend of a Forwarding, as elements. */
export interface FrontendElements {
  /** Identifies place and key; usable as a Map key. */
  readonly id: string;
  readonly place: Place;
  /** Key of its verdict: `[address .] protocol . port`, each part padded to 4 bytes. */
  readonly key: Uint8Array;
  /** The treatment chain preceded by those that it needs; empty = no verdict. */
  readonly chains: readonly ChainDefinition[];
  /** Element of the no-endpoint map. */
  readonly refusal: 'reject' | 'drop' | undefined;
  /** What the place's `endpoints` map holds, by index. */
  readonly endpoints: EndpointList;
  /** What the place's `localEndpoints` map holds, by index. */
  readonly local: EndpointList;
  /** The chain that remembers which endpoint a client got; undefined = no session affinity. */
  readonly learn: ChainDefinition | undefined;
  /** Clients that may connect; undefined = all. */
  readonly clients: readonly Interval[] | undefined;
}

/** The name of the chain that the verdict goes to; undefined = no verdict. */
export function verdictOf(frontend: FrontendElements | undefined): string | undefined {
  return frontend?.chains.at(-1)?.name;
}

/** All chains that a frontend needs, those that others refer to first. */
export function chainsOfFrontend({ chains, learn }: FrontendElements): readonly ChainDefinition[] {
  return learn === undefined ? chains : [...chains, learn];
}

export function frontendElements(
  classes: ChainClasses,
  forwarding: Forwarding,
): FrontendElements[] {
  return forwarding.frontends.map((frontend) => elementsOf(classes, forwarding, frontend));
}

function elementsOf(
  classes: ChainClasses,
  forwarding: Forwarding,
  frontend: Frontend,
): FrontendElements {
  const key = destinationKey(
    frontend.address,
    IPPROTO[forwarding.servicePort.protocol],
    frontend.port,
  );
  const place = placeOf(frontend.kind === 'nodePort' ? 'nodePort' : 'service', key);
  const id = frontendId(place, key);
  const none = EndpointList.empty[forwarding.family];
  const clients = allowedClients(forwarding, frontend);
  const { treatment } = frontend;
  const { affinityTimeoutSeconds } = forwarding;
  if (treatment === 'reject' || treatment === 'drop') {
    const nothing = { chains: [], learn: undefined, endpoints: none, local: none };
    return { id, place, key, clients, ...nothing, refusal: treatment };
  }
  const isLocal = treatment === 'external-local';
  const endpoints = isLocal ? forwarding.cluster : forwarding[frontend.pool];
  const local = isLocal ? forwarding.local : none;
  const chains = classes.treatment({
    place,
    treatment,
    endpoints: endpoints.length,
    localEndpoints: local.length,
    affinity: affinityTimeoutSeconds === 0 ? 'none' : 'ClientIP',
  });
  const learn =
    affinityTimeoutSeconds === 0
      ? undefined
      : classes.learn(affinityTimeoutSeconds, isLocal ? 'both' : 'cluster');
  const refusal = isLocal && local.length === 0 ? 'drop' : undefined;
  return { id, place, key, clients, chains, learn, refusal, endpoints, local };
}

export function frontendId(place: Place, key: Uint8Array): string {
  if (key.length !== 12) return String.fromCharCode(place.number, ...key);
  // Without a spread, which costs three times as much: a restart makes several for each Service.
  const [n, k] = [place.number, key];
  // biome-ignore format: twelve lines would say no more
  return String.fromCharCode(n, k[0]!, k[1]!, k[2]!, k[3]!, k[4]!, k[5]!, k[6]!, k[7]!, k[8]!,
    k[9]!, k[10]!, k[11]!);
}

/** Keys of `cluster-ips` that the Forwarding needs. */
export function clusterIPs(forwarding: Forwarding): Uint8Array[] {
  return forwarding.frontends
    .filter((frontend) => frontend.kind === 'clusterIP')
    .map((frontend) => frontend.address!.bytes);
}

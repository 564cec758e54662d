/** The elements that this mode keeps for a Forwarding. Pure. */
import type { ChainDefinition } from '../../kernel/nft/chain.ts';
import { IPPROTO, VERDICT } from '../../kernel/nft/constants.ts';
import { drop, goto, inSet, jump } from '../../kernel/nft/rule.ts';
import { addressBytes } from '../../net/address.ts';
import { EndpointList } from '../../net/endpoint-list.ts';
import { slotsOf } from '../../state/deal.ts';
import { keyPort } from '../../state/frontend-key.ts';
import { isByClient, isRefusal, type PoolName, type Refusal } from '../../state/paths.ts';
import type { Forwarding, Frontend, ServicePortName } from '../../state/types.ts';
import type { ModeFrontend } from '../changes.ts';
import { putDestination } from '../elements.ts';
import type { ModeConfig } from '../mode.ts';
import type { NamedObject } from '../nft-table/objects.ts';
import { rangeSelectors } from '../nft-table/parts.ts';
import {
  dropChain,
  refuseClient,
  rejectChain,
  resetting,
  resettingChain,
} from '../nft-table/refusals.ts';
import { type Firewall, firewallOf, firewallPrefix } from '../nft-table/source-ranges.ts';
import {
  type FrontendAffinity,
  frontendAffinity,
  objectsOfAffinity,
  type PortAffinity,
  portAffinity,
} from './affinity-objects.ts';
import type { ChainClasses } from './chain-classes.ts';
import { rangeChain } from './chains.ts';
import {
  elementIn,
  type FrontendKind,
  type FrontendMaps,
  frontendMaps,
  type LearnMaps,
  mapsOfKey,
} from './frontend-maps.ts';
import { learnMaps, type SetName } from './layout.ts';
import { ownerComment } from './owner-comment.ts';

/** Approximate bytes of an element in a batch. */
const elementBytes = 48;

/** The maps and the key of a frontend's elements. */
export interface Location {
  /** Identifies the frontend; usable as a Map key. */
  readonly id: string;
  readonly maps: FrontendMaps;
  /**
   * Key of its verdict: `[address .] protocol . port`, each part padded to 4 bytes, with a character
   * for each byte (Latin-1): typed arrays of thousands of frontends would wait for a batch.
   */
  readonly key: string;
}

/** One frontend of a Forwarding, as elements. */
export interface FrontendElements extends Location, ModeFrontend {
  /** Whose frontend it is. */
  readonly servicePort: ServicePortName;
  /** The chain of its paths preceded by those that it needs; empty = no verdict. */
  readonly chains: readonly ChainDefinition[];
  /** Element of the no-endpoint map. */
  readonly refusal: Verdict | undefined;
  /** The chain of its refusal, where that is not one that is always there. */
  readonly resets: ChainDefinition | undefined;
  /** The slots that its `endpoints` map holds, by index. */
  readonly endpoints: EndpointList;
  /** What its `localEndpoints` map holds, by index. */
  readonly local: EndpointList;
  /** Undefined = no session affinity. */
  readonly affinity: FrontendAffinity | undefined;
  /** Who may connect; undefined = all. */
  readonly firewall: Firewall | undefined;
  /** Of a range of ports: the chains that its verdicts go to. */
  readonly range: RangeChains | undefined;
  /** See `Frontend`. */
  readonly isInRange: boolean;
  /** Whether it has an element that counts connections, in its `counts` set. */
  readonly isCounted: boolean;
}

type RangeChains = Partial<Record<'way' | 'refusal', ChainDefinition>>;

export interface Verdict {
  /** VERDICT_* */
  readonly code: number;
  readonly chain: string;
}

/** Without it, a packet to a frontend without endpoints would come to a range of ports. */
const untranslated: Verdict = { code: VERDICT.return, chain: '' };
const rejected: Verdict = { code: VERDICT.goto, chain: rejectChain };
const dropped: Verdict = { code: VERDICT.drop, chain: '' };
const countedDrop: Verdict = { code: VERDICT.goto, chain: dropChain };

const noRefusal = { refusal: undefined, resets: undefined } as const;
const noChains: readonly ChainDefinition[] = [];

function to(code: number, chain: string | undefined): Verdict | undefined {
  return chain === undefined ? undefined : { code, chain };
}

interface VerdictKind {
  /** The map that has its elements, or one for each protocol. */
  readonly maps: Readonly<Record<FrontendKind, SetName | LearnMaps>>;
  /** Whether its elements have a comment that names the Service port. */
  readonly isCommented?: true;
  /** The verdicts that we write, in nft's words. */
  readonly usual: RegExp;
  /** The verdict of a frontend; undefined = it has none of this kind. */
  readonly of: (frontend: FrontendElements) => Verdict | undefined;
}

const learnByNumber: LearnMaps = {
  [IPPROTO.TCP]: learnMaps.TCP,
  [IPPROTO.UDP]: learnMaps.UDP,
  [IPPROTO.SCTP]: learnMaps.SCTP,
};

const refusingChains = [rejectChain, dropChain, ...Object.values(resettingChain)];

/** The kinds of verdicts that a frontend may have, each in separate maps. */
export const verdictParts = [
  'verdict',
  'sticky',
  'learn',
  'refusal',
  'firewall',
  'range',
  'rangeRefusal',
] as const;
export type VerdictPart = (typeof verdictParts)[number];

export const verdictKinds: Readonly<Record<VerdictPart, VerdictKind>> = {
  verdict: {
    maps: { service: 'services', nodePort: 'nodeports' },
    isCommented: true,
    usual: /^(return( comment |$)|goto (nodeport-)?(cluster|external)-)/,
    of: ({ chains, isInRange, range }) =>
      range === undefined
        ? (to(VERDICT.goto, chains.at(-1)?.name) ?? (isInRange ? untranslated : undefined))
        : undefined,
  },
  sticky: {
    maps: { service: 'sticky-services', nodePort: 'sticky-nodeports' },
    usual: /^jump recall-/,
    // A jump: clients that are not remembered return.
    of: ({ affinity }) => to(VERDICT.jump, affinity?.recall.name),
  },
  learn: {
    maps: { service: learnByNumber, nodePort: 'learn-nodeports' },
    usual: /^goto learn-/,
    of: ({ affinity }) => to(VERDICT.goto, affinity?.learn.at(-1)?.name),
  },
  refusal: {
    maps: { service: 'no-endpoint-services', nodePort: 'no-endpoint-nodeports' },
    isCommented: true,
    usual: new RegExp(`^(drop|goto (drop|${refusingChains.join('|')}))( comment |$)`),
    of: ({ range, refusal }) => (range === undefined ? refusal : undefined),
  },
  range: {
    maps: { service: 'ranges', nodePort: 'ranges' },
    isCommented: true,
    usual: /^goto ports-\d+-\d+-range-(cluster|external)-/,
    of: ({ range }) => to(VERDICT.goto, range?.way?.name),
  },
  rangeRefusal: {
    maps: { service: 'no-endpoint-ranges', nodePort: 'no-endpoint-ranges' },
    isCommented: true,
    usual: new RegExp(`^goto ports-\\d+-\\d+-(drop|${refusingChains.join('|')})( comment |$)`),
    of: ({ range }) => to(VERDICT.goto, range?.refusal?.name),
  },
  firewall: {
    maps: { service: 'firewall-ips', nodePort: 'firewall-nodeports' },
    usual: new RegExp(`^(goto|jump) ${firewallPrefix}`),
    // A jump at node ports: clients that may connect return.
    of: ({ firewall, maps: { kind }, range }) =>
      to(kind === 'nodePort' ? VERDICT.jump : VERDICT.goto, range ? undefined : firewall?.chain),
  },
};

/** Comment of the element with a verdict of this kind; empty = it has none. */
export function commentOf({ servicePort }: FrontendElements, part: VerdictPart): string {
  return verdictKinds[part].isCommented ? ownerComment(servicePort) : '';
}

/** The element that holds the frontend's verdict of this kind. */
export function elementOf(
  { maps, key }: Location,
  part: VerdictPart,
): { readonly set: SetName; readonly key: string } {
  return elementIn(verdictKinds[part].maps[maps.kind], key);
}

/** All chains and sets that a frontend needs, each before those that refer to it. */
export function objectsOfFrontend(frontend: FrontendElements): readonly NamedObject[] {
  const { chains, affinity, firewall, range, resets } = frontend;
  if (range !== undefined) {
    const others = [...(firewall?.objects ?? []), ...(resets ? [resets] : [])];
    return [...chains, ...others, ...Object.values(range)];
  }
  if (affinity === undefined && firewall === undefined && resets === undefined) return chains;
  const remembering = affinity === undefined ? [] : objectsOfAffinity(affinity);
  const resetting = resets === undefined ? [] : [resets];
  return [...chains, ...remembering, ...(firewall?.objects ?? []), ...resetting];
}

export function frontendElements(
  classes: ChainClasses,
  forwarding: Forwarding,
): FrontendElements[] {
  const affinity = portAffinity(forwarding);
  return forwarding.frontends.map((one) => elementsOf(classes, forwarding, one, affinity));
}

function elementsOf(
  classes: ChainClasses,
  forwarding: Forwarding,
  frontend: Frontend,
  port: PortAffinity | undefined,
): FrontendElements {
  const { family, servicePort } = forwarding;
  const { config } = classes;
  const { paths } = frontend;
  const isRange = frontend.lastPort !== undefined;
  const { pod, outside } = paths;
  const { countsTraffic: isCounted } = config;
  const { id, maps, key } = locate(forwarding, frontend);
  const none = EndpointList.empty[family];
  const refused = isRefusal(outside.to) ? outside.to : undefined;
  const endpoints = isRefusal(pod.to) ? none : slotsOf(forwarding, pod.to);
  const local =
    isByClient(paths) && !isRefusal(outside.to) ? slotsOf(forwarding, outside.to) : none;
  const chains = isRefusal(pod.to)
    ? noChains
    : classes.of({
        maps,
        isRange,
        paths,
        endpoints: endpoints.length,
        localEndpoints: local.length,
        deal: forwarding.deal && { balance: forwarding.deal.balance, servicePort },
      });
  const { refusal, resets } = refusalOf(refused, forwarding, config);
  const affinity = port && !isRange ? frontendAffinity(config, forwarding, paths, port) : undefined;
  // kube-proxy's mode iptables refuses all clients of a frontend without endpoints alike.
  const isFirewalled = !(config.asIptables && refused === 'reject');
  const firewall = isFirewalled
    ? firewallOf(forwarding, frontend, refuseClient(config))
    : undefined;
  const range = isRange ? rangeChains(config, frontend, chains, firewall, refusal) : undefined;
  // Field by field: with a spread, V8 would copy them by name, which takes many times as long.
  return {
    id,
    maps,
    key,
    servicePort,
    chains,
    refusal,
    resets,
    endpoints,
    local,
    affinity,
    firewall,
    range,
    isInRange: frontend.isInRange === true,
    isCounted,
    bytes: bytesOfElements(endpoints.length + local.length, isCounted),
  };
}

/** Clients are counted and judged on the way: another Service may have a port within. */
function rangeChains(
  { countsTraffic, family }: ModeConfig,
  frontend: Frontend,
  chains: readonly ChainDefinition[],
  firewall: Firewall | undefined,
  refusal: Verdict | undefined,
): RangeChains {
  const refused = refusal?.chain || 'drop';
  const refusing = [refused === 'drop' ? drop : goto(refused)];
  const end = refusal && { refusal: rangeChain(frontend, refused, refusing) };
  const target = chains.at(-1)?.name;
  if (target === undefined) return { ...end };
  const statements = [
    ...(countsTraffic ? [inSet(rangeSelectors(family), 'connections')] : []),
    ...(firewall ? [jump(firewall.chain)] : []),
    goto(target),
  ];
  const name = firewall ? `${target}-${firewall.chain}` : target;
  return { ...end, way: rangeChain(frontend, name, statements) };
}

function refusalOf(
  how: Refusal | undefined,
  { endings }: Forwarding,
  config: ModeConfig,
): Pick<FrontendElements, 'refusal' | 'resets'> {
  if (how === undefined) return noRefusal;
  if (endings?.kept !== undefined) {
    const resets = resetting(how, config);
    return { resets, refusal: { code: VERDICT.goto, chain: resets.name } };
  }
  const drop = config.countsTraffic ? countedDrop : dropped;
  return { resets: undefined, refusal: how === 'reject' ? rejected : drop };
}

/** What a frontend costs in a batch that has this number of endpoints in its maps. */
function bytesOfElements(endpoints: number, isCounted: boolean): number {
  return (endpoints + (isCounted ? 2 : 1)) * elementBytes;
}

/** The bytes of a key, while its text is made of them. */
const keyBytes = new Uint8Array(addressBytes.IPv6 + 8);

export function locate({ servicePort }: Forwarding, frontend: Frontend): Location {
  const { address, kind } = frontend;
  const protocol = IPPROTO[servicePort.protocol];
  const length = putDestination(keyBytes, address, protocol, keyPort(frontend));
  const maps = mapsOfKey(kind === 'nodePort' ? 'nodePort' : 'service', keyBytes, 0, length);
  const id = frontendId(maps, keyBytes, 0, length);
  return { id, maps, key: id.slice(1) };
}

/** Which of its maps holds this pool for a frontend; undefined = none. */
export function partOf(pool: PoolName, { paths }: Frontend): 'endpoints' | 'local' | undefined {
  if (pool === paths.pod.to) return 'endpoints';
  return pool === paths.outside.to ? 'local' : undefined;
}

/** The id of the frontend whose key is in `bytes`, from byte `from` to before `to`. */
export function frontendId(
  maps: FrontendMaps,
  bytes: Uint8Array,
  from = 0,
  to: number = bytes.length,
): string {
  const n = maps.number;
  if (to - from !== 12) return String.fromCharCode(n, ...bytes.subarray(from, to));
  // Without a spread, which costs three times as much: a restart makes several for each Service.
  const k = bytes;
  const i = from;
  // biome-ignore format: twelve lines would say no more
  return String.fromCharCode(n, k[i]!, k[i + 1]!, k[i + 2]!, k[i + 3]!, k[i + 4]!, k[i + 5]!,
    k[i + 6]!, k[i + 7]!, k[i + 8]!, k[i + 9]!, k[i + 10]!, k[i + 11]!);
}

/** The inverse of `frontendId`. */
export function locationOf(id: string): Location {
  return { id, maps: frontendMaps[id.charCodeAt(0)]!, key: id.slice(1) };
}

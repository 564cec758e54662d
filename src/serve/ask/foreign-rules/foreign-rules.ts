/**
 * Rules of other programs that stop connections to Services. They are read for answers and metrics,
 * if the rules of this node have changed since the last reading; never for a packet or a change.
 */
import type { Config } from '../../../config/config.ts';
import { KernelError } from '../../../kernel/errors.ts';
import type { KernelReader } from '../../../kernel/kernel.ts';
import { IPPROTO, NF_INET, NFPROTO } from '../../../kernel/nft/constants.ts';
import { generationOfOthers } from '../../../kernel/steady.ts';
import type { ModeFacts, ModeName } from '../../../modes/mode.ts';
import { type Address, formatAddress, joinHostPort } from '../../../net/address.ts';
import { sameBytes } from '../../../net/bytes.ts';
import type { Seen } from '../../../state/resolve.ts';
import type { Clock } from '../../../time/clock.ts';
import { RecentResults, waitedAtMost } from '../../../time/recent.ts';
import { readingPatienceMs } from '../answer-pacer.ts';
import type { UnroutedEndpoints } from '../unrouted.ts';
import { passing, type SeenThere, seenAt, translatesByTracking } from './hooks.ts';
import { bothFamilies, type ForeignChain, readForeignChains } from './reading.ts';
import { type FirstPacket, type Stop, stopIn } from './walk.ts';

/** What other programs have in the kernel; a value that is replaced when that changes. */
interface FoundChains {
  readonly mode: ModeName;
  readonly all: readonly ForeignChain[];
}

/** Where connections to a Service end. */
export interface Obstacle {
  readonly text: () => string;
  /** NF_INET_*: where it is. */
  readonly hook: number;
  /** The endpoints that connections do not reach; empty: they do not get to any. */
  readonly endpoints: readonly string[];
  /** `inet firewalld filter_FORWARD` */
  readonly chain: string;
}

interface Known {
  readonly unrouted: Pick<UnroutedEndpoints, 'podDevices'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly kernel: KernelReader;
  readonly mode: Pick<ModeFacts, 'name' | 'ownsChain'>;
  readonly config: Pick<Config, 'connectTime' | 'modes'>;
}

/** A client whose packets are judged. */
interface Client {
  readonly address: Uint8Array | undefined;
  readonly isMasqueraded: boolean;
  /** It is a pod of this node. */
  readonly isPod: boolean;
}

/** How long a look serves, and the shortest pause after it, in multiples of its duration. */
const kept = { keepMs: 1000, restFactor: 50 } as const;
/** How long what was read serves while others seem to commit nothing. */
const readMs = 60_000;

export class ForeignRules {
  readonly #known: Known;
  #found: FoundChains = { mode: 'nftables', all: [] };
  readonly #looks: RecentResults<void>;
  /** By what the generation is without our own commits, which change no foreign rule. */
  readonly #readings: RecentResults<readonly ForeignChain[]>;

  constructor(known: Known) {
    this.#known = known;
    const { clock } = known;
    this.#looks = new RecentResults({ ...kept, clock });
    this.#readings = new RecentResults({ keepMs: readMs, resultsMax: 1, clock });
  }

  /** What is known; see `refresh`. */
  get found(): FoundChains {
    return this.#found;
  }

  /**
   * Reads again what may have changed, but does not wait long for a kernel that is busy: what was
   * known is used then. Concurrent callers share the work.
   */
  refresh(patienceMs = readingPatienceMs): Promise<void> {
    const mode = this.#known.mode.name;
    const look = this.#looks.of(mode, () => this.#refresh(mode));
    return waitedAtMost(patienceMs, look);
  }

  async #refresh(current: ModeName): Promise<void> {
    const { kernel } = this.#known;
    let all: readonly ForeignChain[] = [];
    try {
      const others = await generationOfOthers(kernel);
      const read = () => readForeignChains(kernel, current);
      all = await this.#readings.of(`${current} ${others}`, read);
    } catch (error) {
      if (!(error instanceof KernelError)) throw error;
    }
    if (!isSame(this.#found, current, all)) this.#found = { mode: current, all };
  }

  /**
   * The first few that connections to these ports meet for certain: those of this client, or,
   * without one, whoever makes them.
   */
  obstacles(
    seen: readonly Pick<Seen, 'forwarding'>[],
    ownAddresses: readonly Address[],
    client?: Client,
  ): Obstacle[] {
    const { all, mode } = this.#found;
    const clearMark = client?.isMasqueraded ? 0 : this.#masqueradeMark;
    if (all.length === 0) return [];
    const found = new Map<string, Obstacle & { readonly endpoints: string[] }>();
    for (const base of all) {
      const sees = seenAt(mode, base).filter((one) => {
        // Load balancers make them, and not this client.
        const isOfOthers = client !== undefined && one === 'health checks';
        return !isOfOthers && !this.#isTranslatedBefore(base, one);
      });
      for (const one of sees) {
        for (const destination of destinations(one, base, seen, ownAddresses)) {
          if (found.size >= namedMax) return [...found.values()];
          const { address } = destination;
          const awaitsTranslation =
            one === 'frontends' && translatesByTracking(mode) && !isAmong(ownAddresses, address);
          const saddr = client?.address;
          const known = { awaitsTranslation, clearMark, saddr };
          const ofAll = stopOf(base, destination, known);
          const isOfPods = base.hook === NF_INET.FORWARD && client?.isPod !== false;
          const devices = isOfPods ? this.#known.unrouted.podDevices : undefined;
          const ofPods = devices && stopOf(base, destination, { ...known, devices });
          const stop = ofAll ?? ofPods;
          if (stop === undefined) continue;
          const key = `${base.name} ${stop.rule?.text() ?? ''}`;
          const whose = { isOfPods: ofAll === undefined, isUnmarked: clearMark !== 0 };
          const obstacle = found.get(key) ?? obstacleOf(base, stop, destination, whose);
          found.set(key, obstacle);
          if (one === 'endpoints' && address) obstacle.endpoints.push(formatAddress(address));
        }
      }
    }
    return [...found.values()];
  }

  /** The mark of packets that are masqueraded; 0: all are, or none is known by a mark. */
  get #masqueradeMark(): number {
    const { config, mode } = this.#known;
    const { masqueradeAll, masqueradeMark } = config.modes[mode.name];
    // Then chain KUBE-FORWARD accepts what has the mark.
    return mode.ownsChain !== undefined && !masqueradeAll ? masqueradeMark : 0;
  }

  #isTranslatedBefore({ hook }: ForeignChain, seen: SeenThere): boolean {
    if (seen !== 'frontends' || this.#known.config.connectTime === 'off') return false;
    return hook === NF_INET.LOCAL_OUT || hook === NF_INET.PRE_ROUTING;
  }
}

/** All Services are checked again when it is not. */
function isSame(known: FoundChains, mode: ModeName, all: readonly ForeignChain[]): boolean {
  const texts = (chains: readonly ForeignChain[]): string[] =>
    chains.map((one) => {
      const { digest, hook, isDropPolicy, name, priority } = one;
      return [name, hook, priority, isDropPolicy, digest].join(' ');
    });
  return known.mode === mode && texts(known.all).join('\n') === texts(all).join('\n');
}

/** The most obstacles of a Service that are named. */
const namedMax = 3;
/** The most endpoints of a port, and ports of a Service, that are tried. */
const endpointsMax = 16;
const portsMax = 50;

interface Destination {
  readonly seen: SeenThere;
  readonly forwarding: Seen['forwarding'];
  readonly address: Uint8Array | undefined;
  readonly port: number;
}

function* destinations(
  kind: SeenThere,
  { family, hook }: ForeignChain,
  seen: readonly Pick<Seen, 'forwarding'>[],
  ownAddresses: readonly Address[],
): Generator<Destination> {
  for (const { forwarding } of seen.slice(0, portsMax)) {
    if (family !== bothFamilies && family !== NFPROTO[forwarding.family]) continue;
    if (kind === 'health checks') {
      const { healthCheckNodePort: port } = forwarding;
      if (port !== 0) yield { seen: kind, forwarding, address: undefined, port };
      continue;
    }
    if (forwarding.cluster.length + forwarding.local.length === 0) continue;
    if (kind === 'frontends') {
      for (const { address, port } of forwarding.frontends.slice(0, portsMax)) {
        yield { seen: kind, forwarding, address: address?.bytes, port };
      }
      continue;
    }
    const { cluster, local } = forwarding;
    const list = cluster.length > 0 ? cluster : local;
    for (let i = 0; i < Math.min(list.length, endpointsMax); i += 1) {
      const address = list.address(i);
      // What is sent to this node's own addresses is not forwarded.
      if (isAmong(ownAddresses, address) && hook !== NF_INET.LOCAL_OUT) continue;
      yield { seen: kind, forwarding, address, port: list.port(i) };
    }
  }
}

/**
 * Own addresses are left to programs of the node, such as a cache of DNS: its rules keep connection
 * tracking from what is sent to it.
 */
function isAmong(ownAddresses: readonly Address[], address: Uint8Array | undefined): boolean {
  return address !== undefined && ownAddresses.some(({ bytes }) => sameBytes(bytes, address));
}

/** NF_IP_PRI_CONNTRACK */
const conntrackPriority = -200;

function stopOf(
  base: ForeignChain,
  { address, forwarding, port, seen }: Destination,
  known: Pick<FirstPacket, 'awaitsTranslation' | 'clearMark' | 'devices' | 'saddr'>,
): Stop | undefined {
  const { chain, chains, hook, isDropPolicy, priority } = base;
  const { awaitsTranslation, clearMark, devices, saddr } = known;
  const isTracked = priority > conntrackPriority;
  const { family, servicePort } = forwarding;
  return stopIn(chains, chain, isDropPolicy, {
    family,
    protocol: IPPROTO[seen === 'health checks' ? 'TCP' : servicePort.protocol],
    // It may be masqueraded before it leaves.
    saddr: hook === NF_INET.POST_ROUTING ? undefined : saddr,
    // Others do not leave.
    clearMark: hook === NF_INET.FORWARD ? clearMark : 0,
    daddr: address,
    dport: port,
    isTracked,
    // What is forwarded never comes by the loopback device, either.
    devices,
    isFromOutside: seen === 'health checks' || hook === NF_INET.FORWARD,
    awaitsTranslation: awaitsTranslation && !isTracked,
  });
}

const verbs = {
  drop: 'drops',
  reject: 'rejects',
  redirect: 'redirects',
  untrack: 'exempts from connection tracking, and so from translation,',
} as const;

function obstacleOf(
  base: ForeignChain,
  { rule, what }: Stop,
  destination: Destination,
  { isOfPods, isUnmarked }: { readonly isOfPods: boolean; readonly isUnmarked: boolean },
): Obstacle & { readonly endpoints: string[] } {
  const { address, forwarding, port, seen } = destination;
  const text = (): string => {
    const host = address === undefined ? '*' : formatAddress(address);
    const at = `${joinHostPort(host, port)}/${forwarding.servicePort.protocol}`;
    const to = {
      frontends: at,
      endpoints: `endpoint ${at}`,
      'health checks': `health-check node port ${port}`,
    }[seen];
    const isSome = isUnmarked && base.hook === NF_INET.FORWARD;
    const passes = isOfPods ? 'packets of pods of this node' : passing(base.hook);
    const whose = `${passes}${isSome ? ' and does not masquerade,' : ''} to ${to}`;
    return rule === undefined
      ? `Chain ${base.name} of another program ${verbs[what]} ${whose}, because none of its rules accepts them.`
      : `A rule of another program ${verbs[what]} ${whose}: ${rule.text()}.`;
  };
  return { text, hook: base.hook, endpoints: [], chain: base.name };
}

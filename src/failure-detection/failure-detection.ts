/**
 * Follows the endpoints of Services that request it: what is sent to them and what they answer, as
 * the kernel counts it (`counts.ts`) and as probes show it. Endpoints that answer nothing are
 * ejected from the pools of this node, and return (`pool.ts`). Without such a Service there is no
 * table, no timer and no record.
 */
import type { Kernel } from '../kernel/kernel.ts';
import { OwnTable, tableText } from '../kernel/nft/own-table.ts';
import { type Address, type CIDR, type Family, families, parseCIDR } from '../net/address.ts';
import type { EndpointKey } from '../net/endpoint-list.ts';
import type {
  ConfiguredDetection,
  DetectionMode,
  DetectionState,
  DetectionTotals,
  DetectionView,
  EndpointAnswers,
  EndpointEvent,
  EndpointHealth,
} from '../state/detection.ts';
import type { ReadonlyOwners } from '../state/frontend-owners.ts';
import { alternating } from '../state/steps.ts';
import type { ClusterState, ServiceFollower } from '../state/store.ts';
import {
  type ForwardingsByKey,
  forwardingId,
  forwardingKey,
  type Service,
} from '../state/types.ts';
import type { Clock } from '../time/clock.ts';
import { Pacer } from '../time/pacer.ts';
import { Runner } from '../time/runner.ts';
import { readCounts } from './counts.ts';
import { noCounts } from './evidence.ts';
import { contents, ownTable } from './layout.ts';
import type { Change } from './pool.ts';
import { type FollowedPort, FollowedPorts, type PortMember } from './ports.ts';
import { type Probed, Prober, type ProberOptions, type Turn } from './prober.ts';

/** The part of a log that this needs. */
interface Log {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

/** What the configuration asks for. */
interface DetectionConfig {
  readonly failureDetection: ConfiguredDetection;
  readonly failureDetectionMaxEjected: number;
  /** Where pods of the cluster are. */
  readonly clusterCIDR: readonly CIDR[];
}

interface FailureDetectionOptions {
  readonly kernel: Kernel;
  readonly clock: Clock;
  readonly log: Log;
  /** A Service is touched when shares of its endpoints have changed. */
  readonly state: Pick<ClusterState, 'node' | 'service' | 'serviceCIDRs' | 'serviceKeys' | 'touch'>;
  readonly agent: {
    /** The desired Forwardings of each family that is served. */
    readonly families: Iterable<{ readonly family: Family; readonly desired: ForwardingsByKey }>;
    readonly engine:
      | {
          readonly interfaces: readonly Address[];
          readonly owners: Pick<ReadonlyOwners, 'ownerOf'>;
        }
      | undefined;
  };
  readonly observer: (event: EndpointEvent) => void;
  /** Also called when other endpoints of a Service are silent. */
  readonly problems: ServiceFollower;
  /** See `ProberOptions`. */
  readonly connect?: ProberOptions['connect'];
}

const tickMs = 250;
/** A look is followed by a rest of this many times its duration. */
const restFactor = 20;
/** The longest rest: on a busy node a look takes long because others have the processor. */
const restMostMs = 1000;
/** Regular probes go to an endpoint once in this number of turns, which is once a second. */
const probeTurns = 4;
/**
 * The most probes of a namespace in a turn, of which are 20 a second. Two are for regular ones,
 * however many endpoints are suspected.
 */
const ofNamespace = { urgent: 3, all: 5 } as const;
const growthDefaultMs = 10_000;
const noIds: ReadonlySet<string> = new Set();
const noTexts: readonly string[] = [];

export class FailureDetection implements EndpointHealth, DetectionView {
  readonly #options: FailureDetectionOptions;
  readonly #tables: Readonly<Record<Family, OwnTable>>;
  readonly #ports: FollowedPorts;
  /** Ids of the ports of each Service. */
  readonly #ofService = new Map<string, ReadonlySet<string>>();
  /** Services that were resolved since the last look. */
  readonly #resolved = new Set<string>();
  /** `urgent`: a decision depends on the answer. `regular`: the Service requests them. */
  readonly #probers: Readonly<Record<'urgent' | 'regular', Prober>>;
  #config: DetectionConfig = {
    failureDetection: 'off',
    failureDetectionMaxEjected: 50,
    clusterCIDR: [],
  };
  #isChosen = false;
  /** Those of the configuration and of this Node; undefined: the configuration has changed. */
  #podCIDRs: { readonly all: readonly CIDR[]; readonly ofNode: readonly string[] } | undefined;
  #state: DetectionState = { kind: 'off' };
  /** The last state that was logged. */
  #logged = '';
  readonly #looks: Runner;
  #turns = 0;
  readonly #pacer: Pacer;
  readonly #changes = { ejected: 0, returned: 0 };
  /** Error codes of probes that were not tried, which have been logged. */
  readonly #loggedReasons = new Set<string>();

  constructor(options: FailureDetectionOptions) {
    this.#options = options;
    const { agent, clock, connect, kernel, state } = options;
    this.#pacer = new Pacer(clock);
    const restMs = (tookMs: number): number => this.#restMs(tookMs);
    this.#looks = new Runner({ clock, work: () => this.#look(), restMs });
    this.#tables = {
      IPv4: new OwnTable(kernel, ownTable('IPv4')),
      IPv6: new OwnTable(kernel, ownTable('IPv6')),
    };
    const serviceCIDRs = (family: Family) => state.serviceCIDRs(family);
    const podCIDRs = () => this.#knownPodCIDRs();
    const interfaces = () => agent.engine?.interfaces ?? [];
    const ownerOf = (address: Address, port: number) =>
      agent.engine?.owners.ownerOf(address.family, 'TCP', { address, port });
    this.#ports = new FollowedPorts({ interfaces, ownerOf, podCIDRs, serviceCIDRs });
    const notTried: ProberOptions['notTried'] = (endpoint, why) => this.#notTried(endpoint, why);
    const probing = { now: () => clock.now(), notTried, ...(connect && { connect }) };
    this.#probers = {
      urgent: new Prober({ ...probing, ofNamespace: ofNamespace.urgent }),
      regular: new Prober({ ...probing, ofNamespace: ofNamespace.all }),
    };
  }

  get state(): DetectionState {
    return this.#state;
  }

  get isAny(): boolean {
    return this.#ports.size > 0;
  }

  get maxEjected(): number {
    return this.#config.failureDetectionMaxEjected;
  }

  get totals(): DetectionTotals {
    const { leftOut } = this.#ports;
    const totals = { services: this.#ofService.size, endpoints: 0, out: 0, silent: 0, leftOut };
    for (const { members, pool, protocol } of this.#ports.all) {
      totals.endpoints += members.size;
      if (protocol !== 'TCP') continue;
      for (const member of members.values()) {
        if (pool.isOut(member)) totals.out += 1;
        else if (pool.isSilent(member)) totals.silent += 1;
      }
    }
    const { regular, urgent } = this.#probers;
    const succeeded = regular.results.succeeded + urgent.results.succeeded;
    const failed = regular.results.failed + urgent.results.failed;
    const notTried = regular.results.notTried + urgent.results.notTried;
    return { ...totals, ...this.#changes, probes: { succeeded, failed, notTried } };
  }

  modeOf({ detection }: Pick<Service, 'detection'>): DetectionMode {
    const { failureDetection: configured } = this.#config;
    if (configured === 'off') return 'off';
    return detection?.mode ?? (configured === 'by-annotation' ? 'off' : configured);
  }

  answersOf(family: Family, forwarding: string, key: EndpointKey): EndpointAnswers | undefined {
    const port = this.#ports.of(family, forwarding);
    const member = port?.members.get(key);
    if (port === undefined || member === undefined) return undefined;
    const { evidence, exempt } = member;
    const sinceMs = port.pool.outSinceMs(member);
    const outMs = sinceMs === undefined ? undefined : this.#options.clock.now() - sinceMs;
    const isSilent = port.protocol === 'TCP' && port.pool.isSilent(member);
    return { ...evidence.counts, isSilent, outMs, exempt };
  }

  silentIn(family: Family, forwarding: string): readonly string[] {
    const port = this.#ports.of(family, forwarding);
    return port === undefined ? [] : silentOf(port);
  }

  leftOutOf(family: Family, forwarding: string): number {
    return this.#ports.leftOutOf(family, forwarding);
  }

  parts(family: Family, forwarding: string): ReadonlyMap<EndpointKey, number> | undefined {
    if (this.#ports.size === 0) return undefined;
    const port = this.#ports.of(family, forwarding);
    return port?.pool.parts(this.#options.clock.now(), port.asked.growthMs);
  }

  *services(): Generator<string> {
    for (const { asked, pool, service } of this.#ports.all) {
      if (pool.parts(this.#options.clock.now(), asked.growthMs) !== undefined) yield service;
    }
  }

  /** Applies the configuration. */
  choose(config: DetectionConfig): void {
    const before = this.#config;
    this.#config = config;
    this.#podCIDRs = undefined;
    const isSame =
      before.failureDetection === config.failureDetection &&
      before.failureDetectionMaxEjected === config.failureDetectionMaxEjected;
    if (isSame && this.#isChosen) return;
    this.#isChosen = true;
    for (const service of this.services()) this.#options.state.touch(service);
    for (const key of this.#options.state.serviceKeys()) this.resolved(key);
    this.#wake();
  }

  #knownPodCIDRs(): readonly CIDR[] {
    const { podCIDRs: ofNode = noTexts } = this.#options.state.node ?? {};
    if (this.#podCIDRs?.ofNode !== ofNode) {
      const own = ofNode.flatMap((text) => parseCIDR(text) ?? []);
      this.#podCIDRs = { all: [...this.#config.clusterCIDR, ...own], ofNode };
    }
    return this.#podCIDRs.all;
  }

  /** A Service was resolved, or is gone: the next look follows its present endpoints. */
  resolved(key: string): void {
    const service = this.#options.state.service(key);
    const isAsked = service !== undefined && this.modeOf(service) !== 'off';
    if (!isAsked && !this.#ofService.has(key)) return;
    this.#resolved.add(key);
    this.#wake();
  }

  /** The tables stay: the next process replaces or removes them. */
  async close(): Promise<void> {
    for (const table of Object.values(this.#tables)) table.unwatch();
    await this.#looks.stop();
  }

  /** Services that are resolved during this wait for the next look. */
  async #followResolved(): Promise<void> {
    const keys = [...this.#resolved];
    this.#resolved.clear();
    for (const key of keys) await this.#followPorts(key);
  }

  /** In steps: a Service may have 20,000 ports. */
  async #followPorts(key: string): Promise<void> {
    const service = this.#options.state.service(key);
    const before = this.#ofService.get(key) ?? noIds;
    const ids = new Set<string>();
    // Already now: if the Service is deleted between two steps, the next look forgets its ports.
    this.#ofService.set(key, ids);
    for (const one of service === undefined ? [] : this.#follow(service)) {
      if (one !== undefined) ids.add(one);
      await this.#pacer.pause();
    }
    for (const id of before) {
      if (!ids.has(id)) this.#forget(id);
      await this.#pacer.pause();
    }
    if (ids.size === 0) this.#ofService.delete(key);
  }

  /** Yields the id of each port with endpoints to follow, and undefined for one without. */
  *#follow(service: Service): Generator<string | undefined> {
    const mode = this.modeOf(service);
    if (mode === 'off') return;
    for (const { desired, family } of this.#options.agent.families) {
      for (const { name: port, protocol } of service.ports) {
        const { name, namespace } = service;
        const forwarding = desired.get(forwardingKey({ namespace, name, port, protocol }));
        if (forwarding === undefined || protocol === 'SCTP') {
          yield undefined;
          continue;
        }
        const before = this.#ports.of(family, forwarding.key);
        const followed = this.#ports.follow(forwarding, {
          mode,
          probes: service.detection?.probes === true && protocol === 'TCP',
          growthMs: service.balancing?.slowStartMs ?? growthDefaultMs,
        });
        if (followed === undefined) this.#forgotten(before);
        else if (mode !== 'eject') this.#release(followed);
        const isKnown = followed !== undefined || this.#ports.leftOutOf(family, forwarding.key) > 0;
        yield isKnown ? forwardingId(family, forwarding.key) : undefined;
      }
    }
  }

  #forget(id: string): void {
    const port = this.#ports.byId(id);
    this.#ports.forget(id);
    this.#forgotten(port);
  }

  #forgotten(port: FollowedPort | undefined): void {
    if (port === undefined) return;
    this.#release(port);
    if (port.seen.silent !== '') this.#options.problems.resolved(port.service);
  }

  #release({ pool, service }: FollowedPort): void {
    if (pool.release()) this.#options.state.touch(service);
  }

  get #mayBeThere(): boolean {
    return Object.values(this.#tables).some((table) => table.mayBeThere);
  }

  #wake(): void {
    if (this.#ports.size > 0 || this.#resolved.size > 0 || this.#mayBeThere) this.#looks.soon();
  }

  #restMs(tookMs: number): number {
    if (this.#ports.size === 0) return this.#mayBeThere ? restFactor * tickMs : 0;
    return Math.max(tickMs, Math.min(restMostMs, restFactor * tookMs));
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    try {
      await this.#followResolved();
      if (this.#ports.size === 0) await this.#end();
      else await this.#count();
    } catch (error) {
      this.#lacks((error as Error).message);
    }
    if (this.#ports.size > 0) {
      await this.#judge();
      this.#probe();
    }
    this.#wake();
  }

  /** Brings the tables up to date, and reads them. */
  async #count(): Promise<void> {
    const { clock, kernel } = this.#options;
    // A kernel that cannot count is asked again at intervals.
    this.#turns += 1;
    if (this.#state.kind === 'unavailable' && this.#turns % restFactor !== 0) return;
    for (const family of families) {
      if (this.#ports.followed(family).size === 0) {
        await this.#tables[family].remove();
        continue;
      }
      if (!(await this.#bring(family))) return;
      const beganMs = clock.now();
      const counts = await readCounts(kernel, family, this.#pacer.pause);
      const endedMs = clock.now();
      for (const port of this.#ports.all) {
        if (port.family !== family) continue;
        for (const { evidence, followed } of port.members.values()) {
          const counted = counts.get(followed.id);
          if (counted === undefined) continue;
          followed.counts = counted;
          evidence.note(counted, followed.probes, beganMs, endedMs);
        }
        await this.#pacer.pause();
      }
    }
    this.#counts();
  }

  /** Resolves to whether the table counts what is followed; otherwise the next look tries again. */
  async #bring(family: Family): Promise<boolean> {
    const keys = new Set(this.#ports.followed(family).keys());
    const elements = {
      keys: { attempts: keys, resets: keys, answers: keys },
      devices: noIds,
    } as const;
    // What an earlier process has counted is not known.
    const replaces = (_: unknown, isOurs: boolean): boolean => !isOurs;
    const { kind } = await this.#tables[family].bring(contents[family], elements, replaces);
    if (kind === 'again') return false;
    if (kind === 'foreign') {
      throw new Error(`another program made table ${tableText(ownTable(family))}`);
    }
    if (kind !== 'kept') this.#restart(family);
    return true;
  }

  /** The kernel counts from zero. */
  #restart(family: Family): void {
    for (const followed of this.#ports.followed(family).values()) followed.counts = noCounts;
    for (const port of this.#ports.all) {
      if (port.family !== family) continue;
      for (const { evidence, followed } of port.members.values()) evidence.restart(followed.probes);
    }
  }

  async #judge(): Promise<void> {
    const { clock, problems, state } = this.#options;
    const nowMs = clock.now();
    for (const port of this.#ports.all) {
      const { asked, pool, protocol, seen, service } = port;
      if (protocol !== 'TCP') continue;
      const { growthMs, mode } = asked;
      if (mode === 'eject') {
        const changes = pool.judge(nowMs, { growthMs, maxEjected: this.maxEjected });
        for (const change of changes) this.#report(port, change);
      }
      const parts = [...(pool.parts(nowMs, growthMs) ?? [])].join();
      const silent = silentOf(port).join();
      port.seen = { parts, silent };
      if (parts !== seen.parts) state.touch(service);
      if (silent !== seen.silent) problems.resolved(service);
      await this.#pacer.pause();
    }
  }

  #report({ family, name, protocol, service }: FollowedPort, change: Change): void {
    this.#changes[change.kind] += 1;
    const { member, ...what } = change;
    const of = { service, family, port: name, protocol, endpoint: member.text };
    this.#options.observer({ ...of, change: what });
  }

  /**
   * Namespaces take turns, and a different one starts each time. Within a namespace ports take
   * turns, starting with the one that has waited longest.
   */
  #probe(): void {
    const nowMs = this.#options.clock.now();
    const turn: Turn = { number: this.#turns, started: new Map() };
    const urgent = new Map<string, Iterator<PortMember>[]>();
    const regular = new Map<string, Iterator<PortMember>[]>();
    const mayProbe =
      (prober: Prober) =>
      (member: PortMember): boolean =>
        prober.admits(member, turn);
    const isUrgent = mayProbe(this.#probers.urgent);
    const isRegular = mayProbe(this.#probers.regular);
    const add = (to: typeof urgent, port: FollowedPort, queue: Iterator<PortMember>): void => {
      const own = this.#noting(port, queue);
      const queues = to.get(port.namespace);
      if (queues === undefined) to.set(port.namespace, [own]);
      else queues.push(own);
    };
    for (const port of this.#ports.all) {
      const { asked, members, pool, protocol } = port;
      if (protocol !== 'TCP' || members.size === 0) continue;
      if (asked.mode === 'eject') add(urgent, port, pool.suspects(nowMs, isUrgent));
      if (asked.probes) add(regular, port, regularly(port, turn.number, isRegular));
    }
    for (const [prober, queues] of [
      [this.#probers.urgent, urgent],
      [this.#probers.regular, regular],
    ] as const) {
      const ofNamespaces = [...queues.keys()].sort().map((one) => {
        return prober.bounded(one, alternating(queues.get(one)!), turn);
      });
      prober.turn(alternating(rotated(ofNamespaces, turn.number)), turn);
    }
  }

  *#noting(port: FollowedPort, queue: Iterator<PortMember>): Generator<PortMember> {
    for (let next = queue.next(); !next.done; next = queue.next()) {
      this.#ports.probed(port);
      yield next.value;
    }
  }

  /** Nothing is followed. */
  async #end(): Promise<void> {
    this.#logged = '';
    this.#loggedReasons.clear();
    this.#state = { kind: 'off' };
    for (const family of families) {
      if (!(await this.#tables[family].remove())) continue;
      const table = tableText(ownTable(family));
      this.#options.log.info({ table }, 'Removed the table of failure detection');
    }
  }

  #counts(): void {
    this.#state = { kind: 'counting' };
    if (this.#logged === 'counting') return;
    this.#logged = 'counting';
    const { endpoints, services } = this.totals;
    this.#options.log.info({ services, endpoints }, 'Counting answers of endpoints');
  }

  /** Logs each error code once: an exhausted node fails many times a second. */
  #notTried(endpoint: string, { code = '', error: err }: Probed): void {
    if (this.#loggedReasons.has(code)) return;
    this.#loggedReasons.add(code);
    const words = 'Failed to try a connection to an endpoint, which says nothing about it';
    this.#options.log.warn({ err, endpoint }, words);
  }

  /** Logs each reason once. */
  #lacks(because: string): void {
    this.#state = { kind: 'unavailable', because };
    if (this.#logged === because) return;
    this.#logged = because;
    const words = 'Failed to count answers of endpoints; only probes show which answer';
    this.#options.log.warn({ err: because }, words);
  }
}

function silentOf({ members, pool, protocol }: FollowedPort): readonly string[] {
  if (protocol !== 'TCP') return [];
  const silent = [...members.values()].filter((one) => pool.isOut(one) || pool.isSilent(one));
  return silent.map(({ text }) => text);
}

/**
 * Yields members whose turn it is, of those that `mayProbe` admits then. Ejected ones are probed
 * with growing pauses instead.
 */
function* regularly(
  port: FollowedPort,
  turn: number,
  mayProbe: (member: PortMember) => boolean,
): Generator<PortMember> {
  const { pool } = port;
  const { members } = pool;
  const first = port.nextProbe;
  port.probedSince ??= turn;
  for (let i = 0; i < members.length; i += 1) {
    const at = (first + i) % members.length;
    const member = members[at]!;
    // First probes are spread over the turns, and so are all later ones.
    const lastTurn = member.probedTurn ?? port.probedSince + (at % probeTurns) - probeTurns;
    if (turn - lastTurn < probeTurns || pool.isOut(member) || !mayProbe(member)) continue;
    member.probedTurn = turn;
    port.nextProbe = at + 1;
    yield member;
  }
}

function rotated<T>(list: readonly T[], by: number): readonly T[] {
  const from = list.length === 0 ? 0 : by % list.length;
  return [...list.slice(from), ...list.slice(0, from)];
}

/**
 * Connections and refusals of each Service port, as the kernel counts them: read on request, and
 * not more often than every two seconds. Commands and metrics use it.
 */

import type { Config } from '../config/config.ts';
import { ConnectTimeCounts } from '../connect-time/maps/counts.ts';
import type { Placement } from '../connect-time/maps/placement.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { ModeFacts } from '../modes/mode.ts';
import type { Count, RefusalReason } from '../modes/traffic-counts.ts';
import type { Family } from '../net/address.ts';
import type { List } from '../net/list.ts';
import { madeAt } from '../net/made-at.ts';
import {
  type FrontendsByFamily,
  type FrontendsInForce,
  type ServedPort,
  servedPortKey,
} from '../state/frontends-in-force.ts';
import { objectKey, type ServicePort } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';
import { inTurns, Pacer, type Pause } from '../time/pacer.ts';
import { RecentResults } from '../time/recent.ts';
import { HalfMinutes } from './half-minutes.ts';

/** What became of connections. */
export interface Outcomes {
  tried: number;
  answered: number;
  reset: number;
}

/** The counters of one Service port. They only grow while the process runs. */
export interface ServiceTraffic extends ServedPort {
  /** Connections that clients opened, including those refused because there was no endpoint. */
  readonly connections: number;
  /** Packets refused: each retry of a client counts. */
  readonly refusals: ReadonlyMap<RefusalReason, number>;
  /** By endpoint (`10.244.0.5:8080`), of the last day at least. */
  readonly endpoints: ReadonlyMap<string, EndpointTraffic>;
  /** Of connections to endpoints whose answers are counted. */
  readonly outcomes: Readonly<Outcomes>;
}

export interface EndpointTraffic {
  /** Connections that were sent to it. */
  readonly connections: number;
  /** Those of them whose answers are counted; undefined: none are. */
  readonly outcomes?: Readonly<Outcomes>;
}

/** In one second, between the last two readings. */
interface TrafficRates {
  /** Of all Services together. */
  readonly connections: number;
  readonly refusals: number;
  /** Connections by `namespace/name`; absent: none. */
  readonly services: ReadonlyMap<string, number>;
}

export interface Traffic {
  /** The time when the kernel was read. */
  readonly readAtMs: number;
  readonly services: readonly ServiceTraffic[];
  /** Undefined: there was no reading in the minute before. */
  readonly rates?: TrafficRates;
  /** Refused packets in each half minute of the last ten minutes, the oldest first. */
  readonly refused?: readonly number[];
}

type ServicePortName = Pick<ServicePort, 'name' | 'protocol'>;

interface Counted {
  readonly kernel: Kernel;
  readonly clock: Clock;
  readonly config: Pick<Config, 'serviceMetrics'>;
  readonly mode: ModeFacts;
  /** The maps of connect-time translation, which bypasses the rules. */
  readonly engine:
    | {
        readonly connectTime: Pick<Placement, 'directory'> | undefined;
        readonly frontends: FrontendsByFamily;
      }
    | undefined;
  readonly connectionLimits: {
    readonly refusals: { refresh(): Promise<void>; counts(family: Family): readonly Count[] };
  };
  readonly state: {
    service(key: string): { readonly ports: List<ServicePortName> } | undefined;
  };
}

interface Entry extends ServiceTraffic {
  connections: number;
  readonly refusals: Map<RefusalReason, number>;
  endpoints: Map<string, Tally>;
  readonly outcomes: Outcomes;
}

interface Tally extends EndpointTraffic {
  connections: number;
  outcomes?: Outcomes;
}

/** What was counted between two readings, by Service port. */
type News = Map<Entry, Outcomes>;

/** A rate over a longer time says nothing of the present. */
const rateSecondsMax = 60;

const readAgainMs = 2000;
/** A value that was in none of this many whole readings is forgotten. */
export const readingsKept = 100;
/** More values than this many times those of a reading, and some, are not kept. */
const goneFactor = 2;
const goneLeast = 1000;

export class ServiceCounters {
  readonly #agent: Counted;
  readonly #connectTimeCounts = new ConnectTimeCounts();
  readonly #entries = new Map<string, Entry>();
  readonly #last: Readonly<Record<Family, LastCounts>> = {
    IPv4: new LastCounts(),
    IPv6: new LastCounts(),
  };
  /** Since the first reading. */
  #total = { connections: 0, refusals: 0, readAtMs: Number.NEGATIVE_INFINITY };
  /** Connections by `namespace/name` since the reading before. */
  #opened = new Map<string, number>();
  readonly #refused: HalfMinutes;
  readonly #readings: RecentResults<Traffic | undefined>;

  constructor(agent: Counted) {
    this.#agent = agent;
    this.#refused = new HalfMinutes(agent.clock);
    this.#readings = new RecentResults({ clock: agent.clock, keepMs: readAgainMs });
  }

  /** Undefined: the configuration or the mode does not count. */
  read(): Promise<Traffic | undefined> {
    return this.#readings.of('', () => this.#read());
  }

  async #read(): Promise<Traffic | undefined> {
    const { clock, config, engine, mode } = this.#agent;
    if (!config.serviceMetrics || mode.trafficCounts === undefined) {
      this.#entries.clear();
      for (const last of Object.values(this.#last)) last.clear();
      return undefined;
    }
    const readAtMs = clock.now();
    const before = { ...this.#total };
    this.#total.readAtMs = readAtMs;
    this.#opened = new Map();
    await this.#agent.connectionLimits.refusals.refresh();
    for (const one of Object.values(engine?.frontends ?? {})) await this.#readFamily(mode, one);
    const { pause } = new Pacer(clock);
    await this.#forgetGone(pause);
    const seconds = (readAtMs - before.readAtMs) / 1000;
    const isRecent = seconds > 0 && seconds <= rateSecondsMax;
    if (isRecent) this.#refused.add(this.#total.refusals - before.refusals);
    const refused = this.#refused.read();
    const answer = { readAtMs, services: [...this.#entries.values()], refused };
    if (!isRecent) return answer;
    const perSecond = (of: 'connections' | 'refusals') => (this.#total[of] - before[of]) / seconds;
    const rates = {
      connections: perSecond('connections'),
      refusals: perSecond('refusals'),
      services: new Map(Array.from(this.#opened, ([key, count]) => [key, count / seconds])),
    };
    return { ...answer, rates };
  }

  /** Also ports that their Service has no more: their names are a tenant's choice. */
  async #forgetGone(pause: Pause): Promise<void> {
    const present = new Map<string, ReadonlySet<string>>();
    await inTurns(this.#entries, pause, ([id, { namespace, port, protocol, service: name }]) => {
      if (name === '') return;
      const key = objectKey(namespace, name);
      const ports = madeAt(present, key, () => {
        const own = this.#agent.state.service(key)?.ports;
        // Refusals at its addresses are of no port.
        return new Set(own && ['/', ...own.map((one) => `${one.name}/${one.protocol}`)]);
      });
      if (!ports.has(`${port}/${protocol}`)) this.#entries.delete(id);
    });
  }

  /** A family that can't be read keeps its last values, so that the other one is still reported. */
  async #readFamily(mode: ModeFacts, frontends: FrontendsInForce): Promise<void> {
    const { family } = frontends;
    const { clock, engine, kernel } = this.#agent;
    const { pause } = new Pacer(clock);
    const last = this.#last[family];
    await inTurns(this.#entries.values(), pause, (entry) => {
      if (entry.family !== family) return;
      entry.endpoints = new Map();
    });
    const news: News = new Map();
    const counted = (count: Count): string => {
      const more = last.more(count);
      const served = frontends.at(count.destination);
      if (isOf(served, count)) this.#add(this.#entryOf(served), count, more, news);
      return served.namespace;
    };
    // What was read in part may lack the answers to connections that were read.
    const areRulesRead = await mode.trafficCounts?.(kernel, family, pause, counted).then(
      () => {
        for (const [{ outcomes }, more] of news) addOutcomes(outcomes, more);
        return true;
      },
      () => false,
    );
    for (const count of this.#agent.connectionLimits.refusals.counts(family)) counted(count);
    const { directory } = engine?.connectTime ?? {};
    const reader = directory === undefined ? undefined : { kernel, directory, family, pause };
    const areMapsRead =
      reader === undefined ||
      (await this.#connectTimeCounts.read(reader, counted).then(
        () => true,
        () => false,
      ));
    if (areRulesRead === true && areMapsRead) last.readingEnded();
  }

  #entryOf(served: ServedPort): Entry {
    return madeAt(this.#entries, servedPortKey(served), () => {
      const none = { refusals: new Map(), endpoints: new Map() };
      return { ...served, connections: 0, ...none, outcomes: noOutcomes() };
    });
  }

  #add(entry: Entry, { of, count }: Count, more: number, news: News): void {
    switch (of.kind) {
      case 'connections':
        entry.connections += more;
        this.#total.connections += more;
        if (more > 0) add(this.#opened, objectKey(entry.namespace, entry.service), more);
        return;
      case 'endpoint': {
        const tally = tallyOf(entry, of.endpoint);
        tally.connections += count;
        if (of.isFollowed) addOutcome(tally, 'tried', count);
        if (of.isFollowed && more > 0) newsOf(news, entry).tried += more;
        return;
      }
      case 'answers':
      case 'resets': {
        if (!of.isFollowed) return;
        const outcome = of.kind === 'answers' ? 'answered' : 'reset';
        addOutcome(tallyOf(entry, of.endpoint), outcome, count);
        if (more > 0) newsOf(news, entry)[outcome] += more;
        return;
      }
      case 'refusals':
        add(entry.refusals, of.reason, more);
        this.#total.refusals += more;
        return;
    }
  }
}

/**
 * The kernel's last values, by id. An element may be missing from a reading: its value is forgotten
 * only when it was missing from many, so that elements that come and go are not kept for ever.
 */
class LastCounts {
  #recent = new Map<string, number>();
  #older: ReadonlyMap<string, number> = new Map();
  #readings = 0;
  /** How many values this reading has. */
  #read = 0;

  clear(): void {
    this.#recent = new Map();
    this.#older = new Map();
  }

  /** Everything that there is was read. */
  readingEnded(): void {
    this.#readings += 1;
    // Clients may try port after port of a range: most elements are others at each reading.
    const areMostGone = this.#recent.size > goneFactor * this.#read + goneLeast;
    this.#read = 0;
    if (this.#readings % readingsKept !== 0 && !areMostGone) return;
    this.#older = this.#recent;
    this.#recent = new Map();
  }

  /** What was counted since the last value. */
  more({ count, id }: Count): number {
    const before = this.#recent.get(id) ?? this.#older.get(id) ?? 0;
    this.#recent.set(id, count);
    this.#read += 1;
    // Less than before: the element was replaced.
    return count < before ? count : count - before;
  }
}

/** Whether it belongs to a Service, or counts refusals at addresses without a Service. */
function isOf({ service }: ServedPort, { of }: Count): boolean {
  return service !== '' || (of.kind === 'refusals' && of.reason === 'no_such_service');
}

function add<K>(to: Map<K, number>, key: K, count: number): void {
  to.set(key, (to.get(key) ?? 0) + count);
}

function noOutcomes(): Outcomes {
  return { tried: 0, answered: 0, reset: 0 };
}

function tallyOf(entry: Entry, endpoint: string): Tally {
  return madeAt(entry.endpoints, endpoint, () => ({ connections: 0 }));
}

function addOutcome(tally: Tally, outcome: keyof Outcomes, count: number): void {
  tally.outcomes ??= noOutcomes();
  tally.outcomes[outcome] += count;
}

function addOutcomes(to: Outcomes, more: Readonly<Outcomes>): void {
  to.tried += more.tried;
  to.answered += more.answered;
  to.reset += more.reset;
}

function newsOf(news: News, entry: Entry): Outcomes {
  return madeAt(news, entry, noOutcomes);
}

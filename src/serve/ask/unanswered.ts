/**
 * Endpoints of which connection tracking has connections and no answer, and those that refuse all.
 * They are looked for when answers and metrics ask, not more often than every two seconds; never
 * for a packet or a change.
 */
import { conntrackUse } from '../../host/conntrack.ts';
import type { ReadableFiles } from '../../host/files.ts';
import type { Conntrack, ConntrackRequest } from '../../kernel/conntrack.ts';
import { ConntrackEntries, IPS } from '../../kernel/conntrack-entries.ts';
import { isKernelError, orElse } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { baseChain, writeChain, writeRules } from '../../kernel/nft/chain.ts';
import { NF_INET, NFPROTO, NFT_SET } from '../../kernel/nft/constants.ts';
import {
  directionReply,
  matchOutputInterface,
  matchProtocol,
  matchRefusal,
  originalDaddr,
  originalDport,
  replySaddr,
  replySport,
  type Statement,
  statusYoungDNAT,
  updateSet,
} from '../../kernel/nft/rule.ts';
import { fieldsOfSet, type SetDefinition } from '../../kernel/nft/sets.ts';
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { fairShares } from '../../modes/fair-shares.ts';
import type { ModeFacts } from '../../modes/mode.ts';
import { addressType } from '../../modes/nft-table/parts.ts';
import { readCountings } from '../../modes/nft-table/traffic.ts';
import { Address, type Family, formatEndpoint } from '../../net/address.ts';
import { addCount } from '../../net/counts.ts';
import { EndpointFinder } from '../../net/endpoint-finder.ts';
import type { EndpointKey } from '../../net/endpoint-list.ts';
import type { Protocol } from '../../net/protocol.ts';
import type { FrontendsByFamily, FrontendsInForce } from '../../state/frontends-in-force.ts';
import type { ServiceFollower } from '../../state/store.ts';
import { type Forwarding, forwardingId, serviceKey } from '../../state/types.ts';
import type { Clock } from '../../time/clock.ts';
import { inTurns } from '../../time/pacer.ts';
import { answerPacer, type Refresh, refreshing } from './answer-pacer.ts';

interface Known {
  readonly clock: Pick<Clock, 'after' | 'now' | 'turn' | 'wallMs'>;
  readonly conntrack: Pick<Conntrack, 'dump'>;
  /** Undefined: no mode runs. */
  readonly engine: { readonly frontends: FrontendsByFamily } | undefined;
  readonly host: ReadableFiles | undefined;
  readonly kernel: Pick<Kernel, 'apply' | 'dump'>;
  readonly mode: Pick<ModeFacts, 'translates'>;
  /** Called when other endpoints of a Service than before do not answer. */
  readonly problemIndex: ServiceFollower;
}

/** An endpoint that has answered none of the connections that there are to it. */
interface Unanswered {
  readonly service: string;
  readonly endpoint: string;
  readonly forwarding: string;
  /** It answers, and refuses them: that is certain when it is seen. */
  readonly isRefused: boolean;
  /** When this was first seen. */
  readonly since: string;
}

/** How long a look serves, and the shortest pause after it, in multiples of its duration. */
const kept = { keepMs: 2000, restFactor: 50 } as const;
/** A larger table is not read. */
const entriesMax = 1 << 18;
/** The most endpoints whose answers are looked for: no tenant hides those of others. */
const suspectsMax = 32;
/** The kernel walks its whole table for each destination: of more, all entries are read once. */
const narrowDumpsMax = 4;

/** An endpoint in use, with connections that were not answered. */
interface Suspect {
  readonly key: EndpointKey;
  readonly endpoint: string;
  readonly forwarding: Forwarding;
  readonly isRefused: boolean;
  /** Where they were sent. */
  readonly destination: {
    readonly key: EndpointKey;
    readonly address: Address;
    readonly port: number;
  };
}

export class UnansweredEndpoints {
  readonly #known: Known;
  readonly refresh: Refresh;
  readonly #refused: RefusedConnections;
  /** By endpoint and Forwarding. A look finds suspects; those of two looks in a row are certain. */
  #suspects: ReadonlyMap<string, Unanswered> = new Map();
  #certain: ReadonlyMap<string, Unanswered> = new Map();
  #isAsked = false;

  constructor(known: Known) {
    this.#known = known;
    this.#refused = new RefusedConnections(known);
    this.refresh = refreshing(known, kept, () => orElse(this.#look(), undefined, isKernelError));
  }

  /** The next look is for a person, and looks for refusals, too: metrics alone write nothing. */
  asked(): void {
    this.#isAsked = true;
  }

  /** Those of a Forwarding (`forwardingId`), by endpoint. */
  of(id: string): ReadonlyMap<string, Pick<Unanswered, 'isRefused' | 'since'>> {
    const own = [...this.#certain.values()].filter(({ forwarding }) => forwarding === id);
    return new Map(own.map((one) => [one.endpoint, one]));
  }

  async #look(): Promise<void> {
    const { engine, host, mode, problemIndex } = this.#known;
    const use = host && conntrackUse(host);
    const isReadable = mode.translates && (use === undefined || use.entries <= entriesMax);
    const served = Object.values(engine?.frontends ?? {}).filter((one) => one.of('TCP').size > 0);
    const isAsked = this.#isAsked;
    this.#isAsked = false;
    const families = served.map(({ family }) => family);
    if (isReadable) await this.#refused.count(families, isAsked);
    const suspects = new Map<string, Unanswered>();
    for (const frontends of isReadable ? Object.values(engine?.frontends ?? {}) : []) {
      for (const protocol of ['TCP', 'UDP'] as const) {
        // The kernel walks its whole table for each of these.
        if (frontends.of(protocol).size === 0) continue;
        for (const one of await this.#suspectsOf(frontends, protocol)) {
          const key = `${one.forwarding} ${one.endpoint}`;
          suspects.set(key, this.#suspects.get(key) ?? one);
        }
      }
    }
    const before = this.#certain;
    this.#certain = new Map(
      [...suspects].filter(([key, { isRefused }]) => isRefused || this.#suspects.has(key)),
    );
    this.#suspects = suspects;
    for (const [key, { service }] of [...before, ...this.#certain]) {
      if (before.has(key) !== this.#certain.has(key)) problemIndex.resolved(service);
    }
  }

  async #suspectsOf(frontends: FrontendsInForce, protocol: Protocol): Promise<Unanswered[]> {
    const { family } = frontends;
    const { clock, conntrack } = this.#known;
    const request = { family, protocol, zone: 0 } as const;
    const { entries } = await conntrack.dump({ ...request, state: 'unanswered' });
    const pacer = answerPacer(this.#known);
    const counts = new Map<EndpointKey, number>();
    const firsts = new Map<EndpointKey, number>();
    await inTurns(Array(entries.length).keys(), pacer.pause, (i) => {
      const key = entries.key(i, 'replySource');
      // It is not translated.
      if (key === entries.key(i, 'originalDestination')) return;
      addCount(counts, key);
      if (!firsts.has(key)) firsts.set(key, i);
    });
    const often = Array.from(firsts).filter(([key]) => counts.get(key)! >= failedLeast);
    const refused = this.#refused.of(family, protocol);
    const all = [
      ...Array.from({ length: refused.length }, (_, i) => [refused, i] as const),
      ...often.map(([, i]) => [entries, i] as const),
    ];
    const destinationOf = ([from, i]: (typeof all)[number]) => ({
      address: Address.from(from.address(i, 'originalDestination')),
      port: from.port(i, 'originalDestination'),
    });
    const namespaceOf = (one: (typeof all)[number]): string =>
      frontends.at({ ...destinationOf(one), protocol }).namespace;
    const { within } = await fairShares(all, namespaceOf, suspectsMax, pacer.pause);
    const suspects = within.flatMap(([from, i]): Suspect[] => {
      const { address, port } = destinationOf([from, i]);
      const forwarding = frontends.holder(protocol, { address, port });
      const key = from.key(i, 'replySource');
      if (forwarding === undefined || !isInUse(forwarding, key)) return [];
      const destination = { key: from.key(i, 'originalDestination'), address, port };
      const endpoint = formatEndpoint(from.address(i, 'replySource'), from.port(i, 'replySource'));
      return [{ key, endpoint, forwarding, isRefused: from === refused, destination }];
    });
    const answering = await this.#answering(request, suspects);
    const since = new Date(clock.wallMs()).toISOString();
    return suspects
      .filter(({ destination, key }) => {
        const others = answering.get(destination.key)!;
        // With UDP, silence may be right if no endpoint answers.
        return !others.has(key) && (protocol !== 'UDP' || others.size > 0);
      })
      .map(({ endpoint, forwarding: { key, servicePort }, isRefused }) => {
        const service = serviceKey(servicePort);
        return { service, endpoint, forwarding: forwardingId(family, key), isRefused, since };
      });
  }

  /** The endpoints that answer, by the destination of what was sent. */
  async #answering(
    request: Pick<ConntrackRequest, 'family' | 'protocol' | 'zone'>,
    suspects: readonly Suspect[],
  ): Promise<ReadonlyMap<EndpointKey, ReadonlySet<EndpointKey>>> {
    const destinations = new Map(suspects.map((one) => [one.destination.key, one.destination]));
    const narrow = Array.from(destinations.values(), ({ address: { bytes: address }, port }) => {
      return { ...request, destination: { address, port } };
    });
    const answering = new Map(
      Array.from(destinations.keys(), (key) => [key, new Set<EndpointKey>()]),
    );
    const pacer = answerPacer(this.#known);
    for (const one of narrow.length > narrowDumpsMax ? [request] : narrow) {
      const { entries } = await this.#known.conntrack.dump({ ...one, state: 'any' });
      await inTurns(Array(entries.length).keys(), pacer.pause, (i) => {
        if ((entries.status(i) & IPS.SEEN_REPLY) === 0) return;
        answering.get(entries.key(i, 'originalDestination'))?.add(entries.key(i, 'replySource'));
      });
    }
    return answering;
  }
}

function isInUse({ cluster, local }: Forwarding, key: EndpointKey): boolean {
  return [cluster, local].some((list) => new EndpointFinder(list).has(key));
}

/** Fewer connections without an answer say nothing: a client may have given up. */
const failedLeast = 5;

type ToCount = Pick<Known, 'clock' | 'engine' | 'kernel'>;

/** How long it counts, how long it rests if there were none, and how long the result serves. */
const countsMs = 10_000;
const restsMs = 20_000;
const servesMs = 60_000;
/** It reads this often in that time: each reading makes room in a set that one namespace fills. */
const readings = 5;
/** Packets make them: more are not counted. */
const pairsMax = 4096;
const pairs = { set: 'pairs', parts: ['address', 'port'], of: 'resets' } as const;
const table = 'fairlead-refused';
const comment = 'connections that endpoints refuse, for some seconds, by Fairlead';
const none = new ConntrackEntries('IPv4', new Uint8Array(0));

/**
 * Connections that endpoints refuse. Connection tracking forgets those immediately, so that the
 * kernel counts them in a table of its own: for some seconds after a person has asked, and again as
 * long as there are any. The kernel removes the table with this process.
 */
export class RefusedConnections {
  readonly #known: ToCount;
  #found: readonly ConntrackEntries[] = [];
  /** When the last count ended; undefined: one is under way. */
  #endedMs: number | undefined = -Infinity;

  constructor(known: ToCount) {
    this.#known = known;
  }

  /** A frontend and an endpoint each, where the frontend had several in the last count. */
  of(family: Family, protocol: Protocol): ConntrackEntries {
    return (protocol === 'TCP' && this.#found.find((one) => one.family === family)) || none;
  }

  /** Counts again where the last result names any, and where a person asks and it is old. */
  async count(families: readonly Family[], isAsked: boolean): Promise<void> {
    const { clock, kernel } = this.#known;
    if (this.#endedMs === undefined || families.length === 0) return;
    const ageMs = clock.now() - this.#endedMs;
    if (ageMs >= servesMs) this.#found = [];
    const isDue = isAsked && ageMs >= restsMs;
    if (!isDue && !this.#found.some(({ length }) => length > 0)) return;
    const [begin, end] = [new RecordWriter(nftOps), new RecordWriter(nftOps)];
    for (const family of families) {
      writeTable(begin, family);
      end.write('tableDelete', { family: NFPROTO[family], table });
    }
    this.#endedMs = undefined;
    const isBegun = await orElse(kernel.apply(begin.finish()), undefined, isKernelError);
    if (isBegun?.kind !== 'applied') this.#endedMs = clock.now();
    else void this.#count(families, end.finish()).catch(() => {});
  }

  async #count(families: readonly Family[], removal: Uint8Array): Promise<void> {
    const { clock, kernel } = this.#known;
    const found = Promise.all(families.map((family) => this.#countOf(family)));
    try {
      // It goes also if it cannot be read: nothing is to be left that counts.
      this.#found = await found.finally(() => kernel.apply(removal));
    } finally {
      this.#endedMs = clock.now();
    }
  }

  async #countOf(family: Family): Promise<ConntrackEntries> {
    const { clock, engine, kernel } = this.#known;
    const { pause } = answerPacer(this.#known);
    const layout = { family, table, comment, sets: { pairs: pairsOf(family) } };
    const counts = new Map<string, number>();
    for (let i = 0; i < readings; i += 1) {
      await new Promise<void>((resolve) => void clock.after(countsMs / readings, resolve));
      const read = readCountings(kernel, layout, [pairs], pause, ({ count, destination, id }) => {
        counts.set(id.slice('pairs '.length), count);
        return engine?.frontends[family]?.at({ ...destination, protocol: 'TCP' }).namespace ?? '';
      });
      await orElse(read, undefined, isKernelError);
    }
    const byFrontend = new Map<string, number>();
    for (const [pair, count] of counts) addCount(byFrontend, frontendOf(pair), count);
    const entries = Array.from(counts.keys(), (pair) => {
      const frontend = frontendOf(pair);
      if (byFrontend.get(frontend)! < failedLeast) return '';
      // A client's address and port, which are not known, and what else an entry has.
      const [client, tail] = [-2, 10].map((more) => '\0'.repeat(frontend.length + more));
      return [client, frontend.slice(0, -2), pair.slice(frontend.length, -2), tail].join('');
    });
    return new ConntrackEntries(family, Buffer.from(entries.join(''), 'latin1'));
  }
}

function frontendOf(pair: string): string {
  return pair.slice(0, pair.length / 2);
}

function pairsOf(family: Family): SetDefinition {
  const side = [addressType(family), 'inet_service'] as const;
  const flags = { flags: NFT_SET.EVAL, size: pairsMax, isCounted: true };
  return { name: 'pairs', key: [...side, ...side], data: undefined, ...flags, comment: 'counts' };
}

/** Each refusal passes one of these hooks, as in `countsTraffic` of mode nftables. */
function writeTable(writer: RecordWriter<typeof nftOps>, family: Family): void {
  const at = { family: NFPROTO[family], table };
  // A table that is left is made again.
  writer.write('tableBorrow', { ...at, comment });
  writer.write('tableDelete', at);
  writer.write('tableBorrow', { ...at, comment });
  writer.write('setAdd', fieldsOfSet(family, table, pairsOf(family)));
  const frontend = [originalDaddr(family), originalDport];
  const count = updateSet('pairs', [...frontend, replySaddr(family), replySport]);
  const refusal = [statusYoungDNAT, directionReply, matchProtocol('TCP'), matchRefusal, count];
  const hook = (name: string, number: number, ...first: Statement[]): void => {
    const chain = { name, base: baseChain('filter', number, 0), rules: [[...first, ...refusal]] };
    writeChain(writer, at, chain);
    writeRules(writer, at, chain);
  };
  hook('input', NF_INET.LOCAL_IN);
  hook('postrouting', NF_INET.POST_ROUTING, matchOutputInterface('!=', 'lo'));
}

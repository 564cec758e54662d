/** Which clients were refused lately, as the kernel has counted it: read when a caller asks. */
import { isKernelError, orElse } from '../kernel/errors.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { concatBytes, protocolOf } from '../kernel/nft/constants.ts';
import { dumpShape } from '../kernel/nft/sets.ts';
import { binary } from '../modes/elements.ts';
import { eachEntry } from '../modes/nft-table/traffic.ts';
import type { Count } from '../modes/traffic-counts.ts';
import {
  Address,
  addressBytes,
  type Family,
  families,
  formatAddress,
  parseAddress,
} from '../net/address.ts';
import type { FrontendsByFamily } from '../state/frontends-in-force.ts';
import type { Refused, RefusedReason } from '../state/limits.ts';
import type { ClusterState, ServiceFollower } from '../state/store.ts';
import { latin1At, namespaceOf, objectKey } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';
import { Pacer } from '../time/pacer.ts';
import { RecentResults } from '../time/recent.ts';
import { ownTable, refusedSet } from './layout.ts';

export interface RefusalsOptions extends ClientPodsOptions {
  readonly kernel: Kernel;
  readonly agent: { readonly engine: { readonly frontends: FrontendsByFamily } | undefined };
  /** Called when other clients of a Service than before are refused. */
  readonly problems: ServiceFollower;
}

/** How long a reading serves. */
const keepMs = 1000;

export class Refusals {
  readonly #options: RefusalsOptions;
  readonly #reasons: () => readonly RefusedReason[];
  readonly #readings: RecentResults<void>;
  readonly #pods: ClientPods;
  /** By set and key, as read last: clients that are not refused any more leave. */
  #seen = new Map<string, number>();
  /** Since this process looks, by reason and frontend. */
  readonly #totals = new Map<string, Count>();
  /** By Service. */
  #refused: ReadonlyMap<string, readonly Refused[]> = new Map();

  /** `reasons`: those that the table has; none: there is no table. */
  constructor(options: RefusalsOptions, reasons: () => readonly RefusedReason[]) {
    this.#options = options;
    this.#reasons = reasons;
    this.#pods = new ClientPods(options);
    this.#readings = new RecentResults({ keepMs, clock: options.clock });
  }

  /** Reads again after a while. */
  refresh(): Promise<void> {
    return this.#readings.of('', () => orElse(this.#read(), undefined, isKernelError));
  }

  /** The clients of a Service, as of the last reading. */
  of(service: string): readonly Refused[] {
    const refused = this.#refused.get(service) ?? [];
    return refused.map((one) => ({ ...one, pod: this.#pods.of(one.client) }));
  }

  /** What was counted of a family, as of the last reading. */
  counts(family: Family): readonly Count[] {
    return [...this.#totals].flatMap(([id, one]) => (id.startsWith(family) ? [one] : []));
  }

  async #read(): Promise<void> {
    const seen = new Map<string, number>();
    const refused = new Map<string, Refused[]>();
    for (const reason of this.#reasons()) {
      for (const family of families) await this.#readSet(family, reason, seen, refused);
    }
    for (const [id, { destination }] of this.#totals) {
      const [family] = id.split(' ') as [Family];
      const { service } = this.#options.agent.engine?.frontends[family]?.at(destination) ?? {};
      if (service === '') this.#totals.delete(id);
    }
    const worst = [...refused.values()].flat().sort((a, b) => b.packets - a.packets);
    await this.#pods.find(new Set(worst.map(({ client }) => client)));
    const before = this.#refused;
    this.#seen = seen;
    this.#refused = refused;
    for (const service of new Set([...before.keys(), ...refused.keys()])) {
      const [old, now] = [before, refused].map((of) => JSON.stringify(of.get(service)));
      if (old !== now) this.#options.problems.resolved(service);
    }
  }

  async #readSet(
    family: Family,
    reason: RefusedReason,
    seen: Map<string, number>,
    refused: Map<string, Refused[]>,
  ): Promise<void> {
    const { agent, clock, kernel } = this.#options;
    const frontends = agent.engine?.frontends[family];
    const definition = refusedSet(reason, family);
    const keyLength = concatBytes(definition.key);
    const { table } = ownTable;
    const shape = { shape: dumpShape(definition), keyLength, dataLength: 0 };
    const request = { kind: 'elementsDump', family: ownTable.family, table, ...shape } as const;
    const { records } = await kernel.dump({ ...request, set: definition.name });
    const { pause } = new Pacer(clock);
    for (const record of records) {
      if (record.kind !== 'elements' || frontends === undefined) continue;
      await eachEntry(record, pause, (key, count) => {
        // Ports of a range count together, of which a client may try thousands.
        const destination = frontends.firstOf(destinationOf(family, key));
        const { namespace, service } = frontends.at(destination);
        if (service === '') return;
        const id = `${family} ${reason} ${binary(key)}`;
        seen.set(id, count);
        const before = this.#seen.get(id) ?? 0;
        const more = count < before ? count : count - before;
        const { address, port, protocol } = destination;
        const total = [family, reason, protocol, port, address.key].join(' ');
        const of = { kind: 'refusals', reason } as const;
        const known = this.#totals.get(total) ?? { id: total, count: 0, destination, of };
        this.#totals.set(total, { ...known, count: known.count + more });
        const name = objectKey(namespace, service);
        const client = formatAddress(key.subarray(addressBytes[family] + 8));
        const clients = refused.get(name) ?? [];
        refused.set(name, clients);
        clients.push({ reason, client, packets: count });
      });
    }
  }
}

/** The first parts of a key of `refusedSet`. */
function destinationOf(family: Family, key: Uint8Array) {
  const at = addressBytes[family];
  return {
    address: Address.from(key.subarray(0, at)),
    protocol: protocolOf(key[at])!,
    port: (key[at + 4]! << 8) | key[at + 5]!,
  };
}

interface ClientPodsOptions {
  readonly clock: Clock;
  readonly state: Pick<ClusterState, 'serviceKeys' | 'slices'>;
  readonly source: {
    readonly lookup: {
      /** See `Lookup.podsOf`. */
      podsOf(
        namespace: string,
        service: string,
        signal: AbortSignal,
      ): Promise<ReadonlyMap<string, string>>;
    };
  };
}

/** How long the source of objects may take, and how long an answer serves. */
const patienceMs = 500;
const podsKeepMs = 60_000;
/** The most clients that are looked for together. */
const clientsMax = 16;

/** Which pods refused clients are, as far as EndpointSlices name them: looked for when one asks. */
export class ClientPods {
  readonly #options: ClientPodsOptions;
  /** By client; without a name where none is known. */
  readonly #found = new Map<
    string,
    { readonly pod: string | undefined; readonly untilMs: number }
  >();

  constructor(options: ClientPodsOptions) {
    this.#options = options;
  }

  /** `namespace/name`; undefined: not known. */
  of(client: string): string | undefined {
    return this.#found.get(client)?.pod;
  }

  /** Looks for those that were not looked for lately, of the first ones. */
  async find(clients: Iterable<string>): Promise<void> {
    const nowMs = this.#options.clock.now();
    for (const [client, { untilMs }] of this.#found) {
      if (untilMs <= nowMs) this.#found.delete(client);
    }
    const unknown = [...clients].slice(0, clientsMax).filter((one) => !this.#found.has(one));
    if (unknown.length === 0) return;
    const services = await this.#servicesOf(unknown);
    const signal = AbortSignal.timeout(patienceMs);
    const names = await Promise.all(
      [...new Set(services.values())].map(async (key) => {
        const namespace = namespaceOf(key);
        const service = key.slice(namespace.length + 1);
        const { lookup } = this.#options.source;
        // Without an answer, an address alone is named.
        const pods = await lookup.podsOf(namespace, service, signal).catch(() => undefined);
        return [key, { namespace, pods }] as const;
      }),
    );
    const byService = new Map(names);
    for (const client of unknown) {
      const { namespace, pods } = byService.get(services.get(client) ?? '') ?? {};
      const name = pods?.get(client);
      const pod = name === undefined ? undefined : `${namespace}/${name}`;
      this.#found.set(client, { pod, untilMs: nowMs + podsKeepMs });
    }
  }

  /** A Service of which each is an endpoint, by client. */
  async #servicesOf(clients: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const { clock, state } = this.#options;
    const { pause } = new Pacer(clock);
    const wanted = new Map(clients.map((one) => [parseAddress(one)!.latin1, one]));
    const found = new Map<string, string>();
    for (const key of state.serviceKeys()) {
      for (const slice of state.slices(key)) {
        for (let i = 0; i < slice.length; i += 1) {
          const client = wanted.get(latin1At(slice, i));
          if (client !== undefined && !found.has(client)) found.set(client, key);
        }
        const resting = pause();
        if (resting !== undefined) await resting;
      }
    }
    return found;
  }
}

/** What connections to Services carried, which connection tracking reports when they end. */
import { closingTimers } from '../host/conntrack.ts';
import type { ReadableFiles } from '../host/files.ts';
import { type Finding, problem } from '../host/finding.ts';
import { flowOutcomes } from '../kernel/conntrack-ops.ts';
import type { Kernel, ReplyOf } from '../kernel/kernel.ts';
import { protocolOf } from '../kernel/nft/constants.ts';
import { Address, formatEndpoint } from '../net/address.ts';
import { indexOfItem } from '../net/endpoint-list.ts';
import { madeAt } from '../net/made-at.ts';
import { formatPortName } from '../net/protocol.ts';
import {
  type FrontendsByFamily,
  type ServedPort,
  servedPortKey,
  servedPortOf,
} from '../state/frontends-in-force.ts';
import type { ClusterState } from '../state/store.ts';
import { type EndpointSlice, objectKey } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';
import { Pacer } from '../time/pacer.ts';
import { Runner } from '../time/runner.ts';

export interface ServiceBytesOptions {
  readonly clock: Clock;
  readonly log: Record<'info' | 'warn', (fields: object, message: string) => void>;
  readonly agent: {
    readonly config: { readonly flowLog: string };
    readonly engine: { readonly frontends: FrontendsByFamily } | undefined;
    readonly mode: { readonly translates: boolean };
  };
  readonly state: Pick<ClusterState, 'node' | 'service' | 'slices'>;
  /** Opens what waits for these answers alone. */
  readonly openBytes?: () => Pick<Kernel, 'close' | 'dump'>;
  readonly host?: ReadableFiles;
}

/**
 * From clients (`in`) and to them. Packets of IP with their headers. `durations`: connections up to
 * each of `durationBoundsMs`, and above all; `ms`: their sum.
 */
type PortBytes = ServedPort & { in: number; out: number; durations: number[]; ms: number };

/** Durations between which connections are counted: most take less than a second, some hours. */
export const durationBoundsMs = [10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000] as const;
/** Lines of the flow log at a time: a hundred a second. */
const flowsMost = 50;
/** How long the kernel is asked at a time: a stop waits for that. */
const waitMs = 500;
const retryMs = 5000;
/** Endpoints may get other zones, and Services go: after this time, or this many of them. */
const forgetMs = 60_000;
const zonesOfMax = 131_072;
/** Zones of a namespace, and pairs of all: EndpointSlices may name any zone. */
const zonesMax = { named: 16, pairs: 1000 } as const;

export class ServiceBytes {
  readonly #options: ServiceBytesOptions;
  readonly ports = new Map<string, PortBytes>();
  /** From the sender's zone to that of the receiver; empty: not known. */
  readonly zones = new Map<string, { from: string; to: string; bytes: number }>();
  /** Ended connections that were not counted; undefined: the setting is off. */
  missed: number | undefined;
  /** Of endpoints that had connections lately, by `namespace/name` of the Service and address. */
  readonly #zoneOf = new Map<string, string>();
  /** All that they said, by namespace. */
  readonly #named = new Map<string, Set<string>>();
  readonly #reads: Runner;
  #kernel: Pick<Kernel, 'close' | 'dump'> | undefined;
  #forgetAtMs = 0;
  #failure: string | undefined;
  #timers: Uint8Array = new Uint8Array();

  constructor(options: ServiceBytesOptions) {
    this.#options = options;
    const restMs = () => (this.#failure === undefined ? 0 : retryMs);
    this.#reads = new Runner({ clock: options.clock, work: () => this.#read(), restMs });
  }

  /** Of a Service port, both ways; undefined: the setting is off. */
  bytesOf(port: ServedPort): number | undefined {
    const { in: sent = 0, out = 0 } = this.ports.get(servedPortKey(port)) ?? {};
    return this.missed === undefined ? undefined : sent + out;
  }

  get findings(): readonly Finding[] {
    if (this.missed === undefined) return [];
    const { agent, host } = this.#options;
    const off = ['nf_conntrack_acct', 'nf_conntrack_events'].find((name) => {
      return host?.read(`/proc/sys/net/netfilter/${name}`) === '0';
    });
    const obstacle = off === undefined ? this.#failure : `net.netfilter.${off} is 0`;
    const why = agent.mode.translates ? obstacle : 'mode userspace does not count them';
    return why === undefined ? [] : [problem('serviceBytes', `is not in force: ${why}`, '')];
  }

  /** Counts from now on, or no longer. */
  choose(isAsked: boolean): void {
    if (isAsked === (this.missed !== undefined)) return;
    this.#kernel?.close();
    this.#kernel = isAsked ? this.#options.openBytes?.() : undefined;
    this.missed = isAsked ? 0 : undefined;
    for (const known of [this.ports, this.zones, this.#named]) known.clear();
    this.#reads.now();
  }

  async close(): Promise<void> {
    this.choose(false);
    await this.#reads.stop();
  }

  async #read(): Promise<void> {
    const [kernel, { clock, log }] = [this.#kernel, this.#options];
    if (kernel === undefined) return;
    this.#forget(clock.now());
    try {
      const { flowLog } = this.#options.agent.config;
      const flows = flowLog === 'off' ? 0 : flowsMost;
      const asked = { flows, failed: Number(flowLog === 'failed'), timers: this.#timers };
      const bounds = packed(durationBoundsMs);
      const { records } = await kernel.dump({ kind: 'bytesRead', waitMs, bounds, ...asked });
      const { pause } = new Pacer(clock);
      for (const one of records) {
        if (kernel !== this.#kernel) break;
        if (one.kind === 'bytesOfEnded') this.#add(one);
        else if (one.kind === 'flowOfEnded') this.#logFlow(one);
        else if (one.kind === 'bytesMissed') {
          this.missed! += one.connections;
          const { flows } = one;
          if (flows > 0) log.info({ flows }, 'Ended connections without a line of their own');
        }
        await pause();
      }
      this.#failure = undefined;
    } catch (error) {
      const err = (error as Error).message;
      if (err !== this.#failure) log.warn({ err }, 'Could not count bytes; trying again');
      this.#failure = err;
    }
    this.#reads.soon();
  }

  #forget(nowMs: number): void {
    if (nowMs < this.#forgetAtMs) return;
    this.#forgetAtMs = nowMs + forgetMs;
    this.#timers = packed(closingTimers(this.#options.host));
    this.#zoneOf.clear();
    for (const [id, { namespace, service }] of this.ports) {
      if (!this.#options.state.service(objectKey(namespace, service))) this.ports.delete(id);
    }
    const counted = new Set(Array.from(this.ports.values(), ({ namespace }) => namespace));
    for (const one of this.#named.keys()) if (!counted.has(one)) this.#named.delete(one);
  }

  #add(one: ReplyOf<'bytesOfEnded'>): void {
    const { state } = this.#options;
    const [address, endpoint] = [Address.from(one.frontend), Address.from(one.endpoint)];
    const served = this.#servedPort(one, address);
    if (served === undefined) return;
    const port = madeAt(this.ports, servedPortKey(served), () => ({ ...served, ...nothing() }));
    port.in += one.in;
    port.out += one.out;
    port.ms += one.ms;
    const durations = new DataView(one.durations.buffer, one.durations.byteOffset);
    for (let i = 0; i < one.durations.length / 4; i += 1) {
      port.durations[i]! += durations.getUint32(4 * i, true);
    }
    const key = objectKey(served.namespace, served.service);
    const zone = this.#ofNamespace(served.namespace, this.#zoneAt(key, endpoint));
    // A ClusterIP is translated on the node of its client; other frontends anywhere.
    const isOwn = state.service(key)?.clusterIPs.some((own) => own.key === address.key);
    const client = (isOwn && state.node?.zone) || '';
    this.#addZones(client, zone, one.in);
    this.#addZones(zone, client, one.out);
  }

  /** Undefined: another program has translated it, or the Service has gone. */
  #servedPort(
    { port, protocol }: Pick<ReplyOf<'bytesOfEnded'>, 'port' | 'protocol'>,
    address: Address,
  ) {
    const inForce = this.#options.agent.engine?.frontends[address.family];
    const holder = inForce?.holder(protocolOf(protocol), { address, port });
    return holder && servedPortOf(holder);
  }

  #logFlow(one: ReplyOf<'flowOfEnded'>): void {
    const served = this.#servedPort(one, Address.from(one.frontend));
    if (served === undefined) return;
    const fields = {
      service: objectKey(served.namespace, served.service),
      port: formatPortName(served.port, served.protocol),
      client: formatEndpoint(one.client, one.clientPort),
      frontend: formatEndpoint(one.frontend, one.port),
      endpoint: formatEndpoint(one.endpoint, one.endpointPort),
      outcome: flowOutcomes[one.outcome],
      ...(one.isTimed === 1 && { durationMs: one.ms }),
      ...{ bytesIn: one.in, bytesOut: one.out },
    };
    this.#options.log.info(fields, 'Connection ended');
  }

  #ofNamespace(namespace: string, zone: string): string {
    const named = madeAt(this.#named, namespace, () => new Set());
    if (named.size < zonesMax.named) named.add(zone);
    return named.has(zone) ? zone : 'other';
  }

  /**
   * Connections are what it costs, not endpoints: of a thousand slices, one takes 0.1 ms. An index
   * of all endpoints of a Service would be made again where those of others have taken its place.
   */
  #zoneAt(key: string, endpoint: Address): string {
    if (this.#zoneOf.size >= zonesOfMax) this.#zoneOf.clear();
    return madeAt(this.#zoneOf, `${key} ${endpoint.latin1}`, () => {
      return zoneIn(this.#options.state.slices(key), endpoint);
    });
  }

  #addZones(from: string, to: string, bytes: number): void {
    const isKnown = this.zones.size < zonesMax.pairs || this.zones.has(`${from}\0${to}`);
    const pair = isKnown ? { from, to } : { from: 'other', to: 'other' };
    madeAt(this.zones, `${pair.from}\0${pair.to}`, () => ({ ...pair, bytes: 0 })).bytes += bytes;
  }
}

/** Empty: no slice says it. */
function zoneIn(slices: readonly EndpointSlice[], { family, latin1 }: Address): string {
  for (const { addresses, family: own, places } of slices) {
    const at = own === family && places !== undefined ? indexOfItem(addresses, latin1) : -1;
    if (at >= 0) return places![at]!.zone;
  }
  return '';
}

const nothing = () => ({ in: 0, out: 0, durations: [...durationBoundsMs, 0].map(() => 0), ms: 0 });

/** Numbers of 32 bits in host order. */
function packed(numbers: readonly number[]): Uint8Array {
  return new Uint8Array(Uint32Array.from(numbers).buffer);
}

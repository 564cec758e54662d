/**
 * Connections and refusals of each Service port, as the kernel counts them: read on request, and
 * not more often than every two seconds. Commands and metrics use it.
 */
import type { Kernel } from '../kernel/kernel.ts';
import { ConnectTimeCounts } from '../modes/connect-time/counts.ts';
import type { Placement } from '../modes/connect-time/placement.ts';
import type { ModeFacts } from '../modes/mode.ts';
import type { Count, Destination, RefusalReason } from '../modes/traffic-counts.ts';
import { type Family, formatEndpoint } from '../net/address.ts';
import {
  FrontendsByService,
  type ProgrammedFamily,
  type Whom,
} from '../state/frontends-by-service.ts';
import { type Forwarding, objectKey } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';
import { Pacer } from '../time/pacer.ts';

/** The counters of one Service port. They only grow while the process runs. */
export interface ServiceTraffic extends Whom {
  /** Connections that clients opened, including those refused because there was no endpoint. */
  readonly connections: number;
  /** Packets refused: each retry of a client counts. */
  readonly refusals: ReadonlyMap<RefusalReason, number>;
  /** Of `connections`, by `10.96.0.1:80` or `node port 30080`; since the element was created. */
  readonly frontends: ReadonlyMap<string, number>;
  /** Connections by endpoint (`10.244.0.5:8080`), of the last day at least. */
  readonly endpoints: ReadonlyMap<string, number>;
}

export interface Traffic {
  /** The time when the kernel was read. */
  readonly readAtMs: number;
  readonly services: readonly ServiceTraffic[];
}

interface ServiceCountersOptions {
  readonly kernel: Kernel;
  readonly clock: Clock;
  /** The running mode, if traffic is to be counted. */
  readonly mode: () => ModeFacts | undefined;
  /** The maps of connect-time translation, which bypasses the rules. */
  readonly connectTime: () => Pick<Placement, 'directory'> | undefined;
  readonly families: () => readonly ProgrammedFamily[];
  /** Whether a Service `namespace/name` exists. */
  readonly isKnown: (service: string) => boolean;
}

interface Entry extends ServiceTraffic {
  connections: number;
  readonly refusals: Map<RefusalReason, number>;
  frontends: Map<string, number>;
  endpoints: Map<string, number>;
}

const readAgainMs = 2000;
const sliceMs = 2;

export class ServiceCounters {
  readonly #options: ServiceCountersOptions;
  readonly #connectTimeCounts = new ConnectTimeCounts();
  readonly #entries = new Map<string, Entry>();
  /** The kernel's last values, by family and id. */
  readonly #last = new Map<Family, Map<string, number>>();
  #known: Promise<Traffic | undefined> | undefined;
  #readAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: ServiceCountersOptions) {
    this.#options = options;
  }

  /** Undefined: the configuration or the mode does not count. */
  read(): Promise<Traffic | undefined> {
    const { clock } = this.#options;
    if (this.#known === undefined || clock.now() - this.#readAtMs >= readAgainMs) {
      this.#readAtMs = clock.now();
      this.#known = this.#read(this.#known);
    }
    return this.#known;
  }

  /** Serialises readings. */
  async #read(earlier: Promise<unknown> | undefined): Promise<Traffic | undefined> {
    await earlier;
    const { clock, families, mode } = this.#options;
    const running = mode();
    if (running?.trafficCounts === undefined) {
      this.#entries.clear();
      this.#last.clear();
      return undefined;
    }
    const readAtMs = clock.now();
    for (const { family, inForce } of families()) await this.#readFamily(running, family, inForce);
    for (const [id, { namespace, service }] of this.#entries) {
      const isGone = service !== '' && !this.#options.isKnown(objectKey(namespace, service));
      if (isGone) this.#entries.delete(id);
    }
    return { readAtMs, services: [...this.#entries.values()] };
  }

  /** A family that can't be read keeps its last values, so that the other one is still reported. */
  async #readFamily(
    mode: ModeFacts,
    family: Family,
    inForce: ReadonlyMap<string, Forwarding>,
  ): Promise<void> {
    const { clock, connectTime, kernel } = this.#options;
    const { pause } = new Pacer(clock, sliceMs);
    const owners = await FrontendsByService.of(family, inForce.values(), pause);
    const last = this.#last.get(family) ?? new Map<string, number>();
    this.#last.set(family, last);
    for (const entry of this.#entries.values()) {
      if (entry.family !== family) continue;
      entry.frontends = new Map();
      entry.endpoints = new Map();
    }
    const told = (count: Count): void => {
      const before = last.get(count.id) ?? 0;
      last.set(count.id, count.count);
      // Less than before: the element was replaced.
      const more = count.count < before ? count.count : count.count - before;
      const whom = owners.of(count.destination);
      if (isOf(whom, count)) this.#add(this.#entryOf(whom), count, more);
    };
    await mode.trafficCounts?.(kernel, family, pause, told).catch(() => undefined);
    const { directory } = connectTime() ?? {};
    if (directory === undefined) return;
    const reader = { kernel, directory, family, pause };
    await this.#connectTimeCounts.read(reader, told).catch(() => undefined);
  }

  #entryOf(whom: Whom): Entry {
    const { family, namespace, service, port, protocol } = whom;
    const id = [family, namespace, service, port, protocol].join('/');
    let entry = this.#entries.get(id);
    if (entry === undefined) {
      const none = { refusals: new Map(), frontends: new Map(), endpoints: new Map() };
      entry = { ...whom, connections: 0, ...none };
      this.#entries.set(id, entry);
    }
    return entry;
  }

  #add(entry: Entry, { of, count, destination }: Count, more: number): void {
    switch (of.kind) {
      case 'connections':
        entry.connections += more;
        add(entry.frontends, frontendText(destination), count);
        return;
      case 'endpoint':
        add(entry.endpoints, of.endpoint, count);
        return;
      case 'refusals':
        add(entry.refusals, of.reason, more);
        return;
    }
  }
}

/** Whether it belongs to a Service, or counts refusals at addresses without a Service. */
function isOf({ service }: Whom, { of }: Count): boolean {
  return service !== '' || (of.kind === 'refusals' && of.reason === 'no_such_service');
}

function add<K>(to: Map<K, number>, key: K, count: number): void {
  to.set(key, (to.get(key) ?? 0) + count);
}

function frontendText({ address, port = 0 }: Destination): string {
  return address === undefined ? `node port ${port}` : formatEndpoint(address.bytes, port);
}

/**
 * Connections and refusals of each Service port, as the kernel counts them: read when somebody
 * asks, and not more often than every two seconds. Commands and metrics say what this says.
 */
import type { Kernel } from '../kernel/kernel.ts';
import type { ModeFacts } from '../modes/mode.ts';
import type { Count, Destination, RefusalReason } from '../modes/traffic-counts.ts';
import { addressKey, type Family, formatEndpoint } from '../net/address.ts';
import { frontendKey, nodePortKey } from '../state/frontend-key.ts';
import { type Forwarding, objectKey } from '../state/types.ts';
import { type Clock, Pacer } from '../sync/clock.ts';

/** Whom a packet was for. What can't be told is empty. */
export interface Counted {
  readonly family: Family;
  readonly namespace: string;
  readonly service: string;
  /** The name of the Service's port. */
  readonly port: string;
  readonly protocol: string;
}

/** What one Service port has had. Numbers only grow, while the process runs. */
export interface ServiceTraffic extends Counted {
  /** Connections that clients opened, also those that were refused for want of endpoints. */
  readonly connections: number;
  /** Packets refused: a client that sends again is counted again. */
  readonly refusals: ReadonlyMap<RefusalReason, number>;
  /** Of `connections`, by `10.96.0.1:80` or `node port 30080`; since the element was made. */
  readonly frontends: ReadonlyMap<string, number>;
  /** Connections by endpoint (`10.244.0.5:8080`), of the last day at least. */
  readonly endpoints: ReadonlyMap<string, number>;
}

export interface Traffic {
  /** By the clock, when the kernel was read. */
  readonly readAtMs: number;
  readonly services: readonly ServiceTraffic[];
}

/** What is in force in the kernel. */
export interface ProgrammedFamily {
  readonly family: Family;
  readonly inForce: ReadonlyMap<string, Forwarding>;
}

interface ServiceCountersOptions {
  readonly kernel: Kernel;
  readonly clock: Clock;
  /** The mode that runs, if traffic is to be counted. */
  readonly mode: () => ModeFacts | undefined;
  readonly families: () => readonly ProgrammedFamily[];
  /** Whether there is a Service `namespace/name`. */
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
  readonly #entries = new Map<string, Entry>();
  /** What the kernel said last, by family and id. */
  readonly #last = new Map<Family, Map<string, number>>();
  #known: Promise<Traffic | undefined> | undefined;
  #readAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: ServiceCountersOptions) {
    this.#options = options;
  }

  /** Undefined: nothing is counted, by the configuration or in this mode. */
  read(): Promise<Traffic | undefined> {
    const { clock } = this.#options;
    if (this.#known === undefined || clock.now() - this.#readAtMs >= readAgainMs) {
      this.#readAtMs = clock.now();
      this.#known = this.#read(this.#known);
    }
    return this.#known;
  }

  /** One reading after the other. */
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

  /** A family that can't be read keeps what was known: metrics of the other are worth having. */
  async #readFamily(
    mode: ModeFacts,
    family: Family,
    inForce: ReadonlyMap<string, Forwarding>,
  ): Promise<void> {
    const { clock, kernel } = this.#options;
    const { pause } = new Pacer(clock, sliceMs);
    const owners = await Owners.of(family, inForce.values(), pause);
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
      // Less than before: the element is another one.
      const more = count.count < before ? count.count : count.count - before;
      this.#add(this.#entryOf(owners.of(count.destination)), count, more);
    };
    await mode.trafficCounts?.(kernel, family, pause, told).catch(() => undefined);
  }

  #entryOf(counted: Counted): Entry {
    const { family, namespace, service, port, protocol } = counted;
    const id = [family, namespace, service, port, protocol].join('/');
    let entry = this.#entries.get(id);
    if (entry === undefined) {
      const none = { refusals: new Map(), frontends: new Map(), endpoints: new Map() };
      entry = { ...counted, connections: 0, ...none };
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

function add<K>(to: Map<K, number>, key: K, count: number): void {
  to.set(key, (to.get(key) ?? 0) + count);
}

function frontendText({ address, port = 0 }: Destination): string {
  return address === undefined ? `node port ${port}` : formatEndpoint(address.bytes, port);
}

/** Which Service port each frontend of a family belongs to. */
class Owners {
  readonly #family: Family;
  readonly #ports = new Map<string, Counted>();
  readonly #addresses = new Map<number | string, Counted>();

  static async of(
    family: Family,
    forwardings: Iterable<Forwarding>,
    pause: Pacer['pause'],
  ): Promise<Owners> {
    const owners = new Owners(family);
    for (const forwarding of forwardings) {
      owners.#add(forwarding);
      const rest = pause();
      if (rest !== undefined) await rest;
    }
    return owners;
  }

  private constructor(family: Family) {
    this.#family = family;
  }

  #add({ servicePort, frontends }: Forwarding): void {
    const { namespace, name: service, port, protocol } = servicePort;
    const family = this.#family;
    const counted = { family, namespace, service, port, protocol };
    const whole = { family, namespace, service, port: '', protocol: '' };
    for (const frontend of frontends) {
      this.#ports.set(`${protocol} ${frontendKey(frontend)}`, counted);
      if (frontend.address !== undefined) this.#addresses.set(addressKey(frontend.address), whole);
    }
  }

  /** An address that is no frontend's is one of the node, with a node port. */
  of({ address, port, protocol }: Destination): Counted {
    const nobody = { namespace: '', service: '', port: '', protocol: protocol ?? '' };
    const none = { family: this.#family, ...nobody };
    if (port === undefined) {
      return (address && this.#addresses.get(addressKey(address))) ?? none;
    }
    const key = frontendKey({ address, port });
    return (
      this.#ports.get(`${protocol} ${key}`) ??
      this.#ports.get(`${protocol} ${nodePortKey(port)}`) ??
      none
    );
  }
}

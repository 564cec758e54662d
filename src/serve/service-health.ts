/**
 * Health-check node ports. Load balancers use them to check whether this node has endpoints of a
 * Service whose external traffic policy is Local (behaviour document 5.10 and 10.2). They may ask
 * at an address of either family. If the Service lacks that family, the answer is about the family
 * that it has.
 */
import { type Address, type Family, formatAddress } from '../net/address.ts';
import { healthCheckNodePort } from '../state/policy.ts';
import type { ClusterState } from '../state/store.ts';
import { Condition, type EndpointSlice, latin1At } from '../state/types.ts';
import { Backoff } from '../time/backoff.ts';
import type { Clock } from '../time/clock.ts';
import { Pacer } from '../time/pacer.ts';
import type { HttpThread, Listening } from './http/http-thread.ts';

/** `code`: of the system call. */
type ListenError = Error & { readonly code?: string };

/** About the Service `namespace/name`. */
export type ServiceHealthEvent = { readonly service: string; readonly port: number } & (
  | { readonly kind: 'opened' | 'closed'; readonly family: Family }
  | { readonly kind: 'failed'; readonly error: Error; readonly retryMs: number }
);

export interface ServiceHealthFailure {
  readonly port: number;
  readonly error: ListenError;
}

interface ServiceHealthOptions {
  readonly state: ClusterState;
  readonly clock: Clock;
  /** Opens ports; knows whether the proxy is healthy. */
  readonly http: Pick<HttpThread, 'listen' | 'takeSlot' | 'giveSlot' | 'memory'>;
  /** Has the families that are served: one may come later. */
  readonly agent: { readonly enabledFamilies: readonly Family[] };
  /** Where to listen. */
  readonly addresses: (family: Family) => readonly Address[] | 'all';
  readonly observer: (event: ServiceHealthEvent) => void;
}

interface DesiredPort {
  readonly service: string;
  /** The family of `hosts`. */
  readonly family: Family;
  readonly port: number;
  /** Addresses to listen on, sorted. */
  readonly hosts: readonly string[];
}

const anyHost = { IPv4: '0.0.0.0', IPv6: '::' } as const;
/** How often to retry a port that another program uses, perhaps for long. */
const retryLimits = { firstMs: 1000, secondMs: 5000, maxMs: 60_000 };

const both = <T>(make: () => T): Record<Family, T> => ({ IPv4: make(), IPv6: make() });

export class ServiceHealth {
  readonly #options: ServiceHealthOptions;
  /** By the family of the addresses. */
  readonly #ports = both(() => new Map<string, HealthPort>());
  /** Services that were resolved, to be handled when they are in force in each family. */
  readonly #changed = both(() => new Set<string>());
  /** The addresses to listen on as last seen, by the family in force and by their own family. */
  readonly #hosts = both(() => ({ IPv4: '', IPv6: '' }));
  readonly #pacer = new Pacer();
  #isClosed = false;

  constructor(options: ServiceHealthOptions) {
    this.#options = options;
  }

  /** The Service `namespace/name` was resolved, or is gone. */
  resolved(service: string): void {
    const families = this.#options.agent.enabledFamilies;
    const isHeld = families.some((family) => this.#ports[family].has(service));
    if (!isHeld && this.#portOf(service) === 0) return;
    for (const family of families) this.#changed[family].add(service);
  }

  /** The resolved state is in force in the family, so answers may follow it. */
  inForce(family: Family): void {
    const changed = this.#changed[family];
    if (this.#isClosed || changed.size + this.#ports.IPv4.size + this.#ports.IPv6.size === 0)
      return;
    for (const of of this.#options.agent.enabledFamilies) this.#lookForNewHosts(family, of);
    const services = [...changed];
    changed.clear();
    for (const of of this.#options.agent.enabledFamilies) {
      this.#look(
        services.filter((service) => this.#decides(family, service, of)),
        of,
      );
    }
  }

  /** Why the port of the Service `namespace/name` is closed; undefined: it is not, or has none. */
  failureOf(service: string): ServiceHealthFailure | undefined {
    for (const ports of Object.values(this.#ports)) {
      const port = ports.get(service);
      if (port?.error !== undefined) return { port: port.port, error: port.error };
    }
    return undefined;
  }

  close(): void {
    this.#isClosed = true;
    for (const ports of Object.values(this.#ports)) {
      for (const port of ports.values()) port.close();
      ports.clear();
    }
  }

  /**
   * Moves ports whose answers are about `inForce`, when the addresses of family `of` have changed.
   */
  #lookForNewHosts(inForce: Family, of: Family): void {
    const hosts = this.#hostsOf(of).join();
    if (hosts === this.#hosts[inForce][of]) return;
    this.#hosts[inForce][of] = hosts;
    for (const service of this.#ports[of].keys()) this.#changed[inForce].add(service);
  }

  /** Whether the answer at addresses of family `of` is about `family`. */
  #decides(family: Family, service: string, of: Family): boolean {
    return family === (this.#aboutOf(service, of) ?? this.#ports[of].get(service)?.about);
  }

  /** Opens, moves and closes ports at addresses of `family`, and updates their answers. */
  #look(services: readonly string[], family: Family): void {
    const ports = this.#ports[family];
    const hosts = this.#hostsOf(family);
    // Ports are closed first, because a port may pass from one Service to another.
    const opening = services.filter((service) => this.#closeUnlessSame(service, family, hosts));
    for (const service of opening) {
      ports.set(service, this.#open({ service, family, port: this.#portOf(service), hosts }));
    }
    for (const service of services) {
      const about = this.#aboutOf(service, family);
      if (about === undefined) continue;
      const count = countLocalReady(this.#options.state.slices(service), about);
      ports.get(service)?.report(about, count);
    }
  }

  /** Returns true when the Service has a port that must be opened. */
  #closeUnlessSame(service: string, family: Family, hosts: readonly string[]): boolean {
    const port = this.#aboutOf(service, family) === undefined ? 0 : this.#portOf(service);
    const held = this.#ports[family].get(service);
    if (held?.is(port, hosts)) return false;
    if (held !== undefined) {
      held.close();
      this.#ports[family].delete(service);
      this.#options.observer({ kind: 'closed', service, family, port: held.port });
    }
    return port !== 0;
  }

  #open(desired: DesiredPort): HealthPort {
    const { service, family, port } = desired;
    const { clock, http, observer } = this.#options;
    return new HealthPort(desired, {
      clock,
      http,
      pacer: this.#pacer,
      opened: () => observer({ kind: 'opened', service, family, port }),
      failed: (error, retryMs) => observer({ kind: 'failed', service, port, error, retryMs }),
    });
  }

  /** The health-check node port of a Service; 0 = none. */
  #portOf(name: string): number {
    const service = this.#options.state.service(name);
    return service === undefined ? 0 : healthCheckNodePort(service);
  }

  /** The family of the answers at addresses of `family`: the same, if the Service has it. */
  #aboutOf(name: string, family: Family): Family | undefined {
    const clusterIPs = this.#options.state.service(name)?.clusterIPs ?? [];
    const has = (one: Family): boolean => clusterIPs.some((address) => address.family === one);
    return has(family) ? family : this.#options.agent.enabledFamilies.find(has);
  }

  #hostsOf(family: Family): string[] {
    const addresses = this.#options.addresses(family);
    if (addresses === 'all') return [anyHost[family]];
    return addresses.map(({ bytes }) => formatAddress(bytes)).sort();
  }
}

interface HealthPortOptions extends Pick<ServiceHealthOptions, 'clock' | 'http'> {
  /** Shared by all ports, as thousands may be opened at the same time. */
  readonly pacer: Pacer;
  readonly opened: () => void;
  readonly failed: (error: Error, retryMs: number) => void;
}

/** The listeners of one Service at the addresses of one family: all of them, or none. */
class HealthPort {
  readonly #desired: DesiredPort;
  readonly #options: HealthPortOptions;
  readonly #backoff: Backoff;
  /** The slot in which the thread finds the number of endpoints. */
  readonly #slot: number | undefined;
  #about: Family;
  #error: ListenError | undefined;
  #listeners: readonly Listening[] = [];
  #cancelRetry = (): void => {};
  #isClosed = false;

  constructor(desired: DesiredPort, options: HealthPortOptions) {
    this.#desired = desired;
    this.#options = options;
    this.#about = desired.family;
    this.#backoff = new Backoff(retryLimits, options.clock);
    this.#slot = options.http.takeSlot();
    void this.#listen();
  }

  get port(): number {
    return this.#desired.port;
  }

  /** Why it is closed; undefined: it is not, or nothing is known yet. */
  get error(): ListenError | undefined {
    return this.#error;
  }

  is(port: number, hosts: readonly string[]): boolean {
    return port === this.#desired.port && hosts.join() === this.#desired.hosts.join();
  }

  /** The family that was reported last. */
  get about(): Family {
    return this.#about;
  }

  /** The number of ready endpoints of family `about` on this node. */
  report(about: Family, localEndpoints: number): void {
    this.#about = about;
    if (this.#slot !== undefined)
      this.#options.http.memory.setEndpoints(this.#slot, localEndpoints);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelRetry();
    this.#closeListeners();
    if (this.#slot !== undefined) this.#options.http.giveSlot(this.#slot);
  }

  async #listen(): Promise<void> {
    const { pacer } = this.#options;
    if (pacer.due) await pacer.rest();
    if (this.#isClosed) return;
    const waiting = new Set(this.#desired.hosts);
    // A restarted thread opens again all ports that were open.
    const opened = (host: string): void => {
      if (!waiting.delete(host) || waiting.size > 0) return;
      this.#error = undefined;
      this.#options.opened();
    };
    this.#listeners = [];
    for (const host of this.#desired.hosts) this.#open(host, () => opened(host));
  }

  #open(host: string, opened: () => void): void {
    const { family, port, service } = this.#desired;
    const [namespace = '', name = ''] = service.split('/');
    const slot = this.#slot;
    if (slot === undefined) {
      this.#failed(new Error('there are too many health-check node ports'));
      return;
    }
    const all = this.#listeners;
    const listener = this.#options.http.listen({
      place: { host, port, ipv6Only: family === 'IPv6' },
      group: 'service health',
      answers: { kind: 'service', namespace, name, slot },
      opened,
      failed: (error) => {
        if (this.#listeners.includes(listener)) this.#failed(error);
      },
    });
    this.#listeners = [...all, listener];
  }

  #failed(error: ListenError): void {
    this.#error = error;
    this.#closeListeners();
    const retryMs = this.#backoff.failed();
    this.#cancelRetry = this.#options.clock.after(retryMs, () => void this.#listen());
    this.#options.failed(error, retryMs);
  }

  #closeListeners(): void {
    for (const listener of this.#listeners) listener.close();
    this.#listeners = [];
  }
}

const readyHere = Condition.ready | Condition.local;

/**
 * The number of ready addresses on this node that serve a Service on some port, which is the answer
 * of its health-check node port (behaviour document 10.2). Unlike the local pool, it never includes
 * terminating endpoints. `slices` are the Service's.
 */
export function countLocalReady(slices: readonly EndpointSlice[], family: Family): number {
  const found = new Set<string>();
  for (const slice of slices) {
    if (slice.family !== family || slice.ports.length === 0) continue;
    for (let i = 0; i < slice.length; i += 1) {
      if ((slice.conditions.charCodeAt(i) & readyHere) !== readyHere) continue;
      found.add(latin1At(slice, i));
    }
  }
  return found.size;
}

/**
 * Health-check node ports. Load balancers ask there whether this node has endpoints of a Service
 * whose external traffic policy is Local (behaviour document 5.10 and 10.2). They may ask at an
 * address of either family. When the Service lacks that family, the answer is about the family that
 * it has.
 */
import { createServer, type Server } from 'node:http';
import { type Address, type Family, formatAddress } from '../net/address.ts';
import { Pacer } from '../source/pacer.ts';
import { countLocalReady } from '../state/local-ready.ts';
import { healthCheckNodePort } from '../state/policy.ts';
import type { ClusterState } from '../state/store.ts';
import { Backoff } from '../sync/backoff.ts';
import type { Clock } from '../sync/clock.ts';
import { Connections } from './connections.ts';
import { jsonHeaders } from './server.ts';

/** About the Service `namespace/name`. */
export type ServiceHealthEvent = { readonly service: string; readonly port: number } & (
  | { readonly kind: 'opened' | 'closed'; readonly family: Family }
  | { readonly kind: 'failed'; readonly error: Error; readonly retryMs: number }
);

interface ServiceHealthOptions {
  readonly state: ClusterState;
  readonly clock: Clock;
  /** Whether the proxy is healthy. Whether the node is eligible does not matter. */
  readonly healthy: () => boolean;
  /** What this machine can do. */
  readonly families: readonly Family[];
  /** Where to listen. */
  readonly addresses: (family: Family) => readonly Address[] | 'all';
  readonly observer: (event: ServiceHealthEvent) => void;
}

interface Wanted {
  readonly service: string;
  /** The family of `hosts`. */
  readonly family: Family;
  readonly port: number;
  /** Addresses to listen on, sorted. */
  readonly hosts: readonly string[];
}

/** The most connections to all health-check node ports together. */
const connectionsMax = 1024;
const anyHost = { IPv4: '0.0.0.0', IPv6: '::' } as const;
/** How often to retry a port that another program has, and may keep for long. */
const retryLimits = { firstMs: 1000, secondMs: 5000, maxMs: 60_000 };

const both = <T>(make: () => T): Record<Family, T> => ({ IPv4: make(), IPv6: make() });

export class ServiceHealth {
  readonly #options: ServiceHealthOptions;
  /** By the family of the addresses. */
  readonly #ports = both(() => new Map<string, HealthPort>());
  /** Services that were resolved, to be handled when they are in force in each family. */
  readonly #changed = both(() => new Set<string>());
  /**
   * The addresses to listen on at the last look, by the family in force and by their own family.
   */
  readonly #hosts = both(() => ({ IPv4: '', IPv6: '' }));
  readonly #pacer = new Pacer();
  readonly #connections = new Connections(connectionsMax);
  #isClosed = false;

  constructor(options: ServiceHealthOptions) {
    this.#options = options;
  }

  /** The Service `namespace/name` was resolved, or is gone. */
  resolved(service: string): void {
    const { families } = this.#options;
    const isHeld = families.some((family) => this.#ports[family].has(service));
    if (!isHeld && this.#portOf(service) === 0) return;
    for (const family of families) this.#changed[family].add(service);
  }

  /** What was resolved is in force in the family, so that load balancers may be told. */
  inForce(family: Family): void {
    if (this.#isClosed) return;
    const changed = this.#changed[family];
    for (const of of this.#options.families) this.#lookForNewHosts(family, of);
    const services = [...changed];
    changed.clear();
    for (const of of this.#options.families) {
      this.#look(
        services.filter((service) => this.#decides(family, service, of)),
        of,
      );
    }
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
    // Ports are closed first, because one may pass from a Service to another.
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

  #open(wanted: Wanted): HealthPort {
    const { service, family, port } = wanted;
    const { clock, healthy, observer } = this.#options;
    return new HealthPort(wanted, {
      clock,
      healthy,
      pacer: this.#pacer,
      connections: this.#connections,
      opened: () => observer({ kind: 'opened', service, family, port }),
      failed: (error, retryMs) => observer({ kind: 'failed', service, port, error, retryMs }),
    });
  }

  /** The health-check node port of a Service; 0 = none. */
  #portOf(name: string): number {
    const service = this.#options.state.service(name);
    return service === undefined ? 0 : healthCheckNodePort(service);
  }

  /** The family that answers at addresses of `family` are about; its own, if the Service has it. */
  #aboutOf(name: string, family: Family): Family | undefined {
    const clusterIPs = this.#options.state.service(name)?.clusterIPs ?? [];
    const has = (one: Family): boolean => clusterIPs.some((address) => address.family === one);
    return has(family) ? family : this.#options.families.find(has);
  }

  #hostsOf(family: Family): string[] {
    const addresses = this.#options.addresses(family);
    if (addresses === 'all') return [anyHost[family]];
    return addresses.map(({ bytes }) => formatAddress(bytes)).sort();
  }
}

interface HealthPortOptions extends Pick<ServiceHealthOptions, 'clock' | 'healthy'> {
  /** Shared by all ports, as thousands may be opened at once. */
  readonly pacer: Pacer;
  readonly connections: Connections;
  readonly opened: () => void;
  readonly failed: (error: Error, retryMs: number) => void;
}

/** The listeners of one Service at the addresses of one family: all of them, or none. */
class HealthPort {
  readonly #wanted: Wanted;
  readonly #options: HealthPortOptions;
  readonly #backoff: Backoff;
  #localEndpoints = 0;
  #about: Family;
  #servers: readonly Server[] = [];
  #cancelRetry = (): void => {};
  #isClosed = false;

  constructor(wanted: Wanted, options: HealthPortOptions) {
    this.#wanted = wanted;
    this.#options = options;
    this.#about = wanted.family;
    this.#backoff = new Backoff(retryLimits, options.clock);
    void this.#listen();
  }

  get port(): number {
    return this.#wanted.port;
  }

  is(port: number, hosts: readonly string[]): boolean {
    return port === this.#wanted.port && hosts.join() === this.#wanted.hosts.join();
  }

  /** The family that was reported last. */
  get about(): Family {
    return this.#about;
  }

  /** Endpoints of family `about` on this node that are ready. */
  report(about: Family, localEndpoints: number): void {
    this.#about = about;
    this.#localEndpoints = localEndpoints;
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelRetry();
    this.#closeServers();
  }

  async #listen(): Promise<void> {
    const { pacer } = this.#options;
    if (pacer.due) await pacer.rest();
    if (this.#isClosed) return;
    const { hosts } = this.#wanted;
    const servers = hosts.map(() => this.#makeServer());
    this.#servers = servers;
    const bound = await Promise.allSettled(servers.map((one, i) => this.#bind(one, hosts[i]!)));
    if (this.#isClosed) return close(servers);
    const failure = bound.find(({ status }) => status === 'rejected');
    if (failure?.status === 'rejected') return this.#failed(failure.reason as Error, servers);
    for (const server of servers) server.on('error', (error) => this.#failed(error, servers));
    if (hosts.length > 0) this.#options.opened();
  }

  #bind(server: Server, host: string): Promise<void> {
    const ipv6Only = this.#wanted.family === 'IPv6';
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host, port: this.#wanted.port, ipv6Only }, () => {
        server.off('error', reject);
        resolve();
      });
    });
  }

  #failed(error: Error, servers: readonly Server[]): void {
    if (servers !== this.#servers) return;
    this.#closeServers();
    const retryMs = this.#backoff.failed();
    this.#cancelRetry = this.#options.clock.after(retryMs, () => void this.#listen());
    this.#options.failed(error, retryMs);
  }

  #closeServers(): void {
    close(this.#servers);
    this.#servers = [];
  }

  #makeServer(): Server {
    const [namespace, name] = this.#wanted.service.split('/');
    const server = createServer((_request, response) => {
      const localEndpoints = this.#localEndpoints;
      const serviceProxyHealthy = this.#options.healthy();
      const body = { service: { namespace, name }, localEndpoints, serviceProxyHealthy };
      const headers = {
        ...jsonHeaders,
        'X-Load-Balancing-Endpoint-Weight': String(localEndpoints),
      };
      response
        .writeHead(localEndpoints > 0 && serviceProxyHealthy ? 200 : 503, headers)
        .end(JSON.stringify(body, undefined, '\t'));
    });
    this.#options.connections.bound(server);
    return server;
  }
}

function close(servers: readonly Server[]): void {
  for (const server of servers) {
    server.close();
    server.closeAllConnections();
  }
}

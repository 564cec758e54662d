/**
 * Health-check node ports: load balancers ask there whether this node has endpoints of a Service
 * whose external traffic policy is Local (behaviour document 5.10 and 10.2).
 */
import { createServer, type Server } from 'node:http';
import { Pacer } from '../source/pacer.ts';
import { type Address, type Family, formatAddress } from '../state/address.ts';
import { countLocalReady } from '../state/local-ready.ts';
import { healthCheckNodePort } from '../state/policy.ts';
import type { ClusterState } from '../state/store.ts';
import type { Clock } from '../sync/clock.ts';
import { Backoff } from '../sync/retry.ts';
import { jsonHeaders } from './server.ts';

/** About the Service `namespace/name`. */
export type ServiceHealthEvent = { readonly service: string; readonly port: number } & (
  | { readonly kind: 'opened' | 'closed'; readonly family: Family }
  | { readonly kind: 'failed'; readonly error: Error; readonly retryMs: number }
);

export interface ServiceHealthOptions {
  readonly state: ClusterState;
  readonly clock: Clock;
  /** The proxy does its work; whether the node is eligible does not matter here. */
  readonly healthy: () => boolean;
  /** Where to listen. */
  readonly addresses: (family: Family) => readonly Address[] | 'all';
  readonly observer: (event: ServiceHealthEvent) => void;
}

interface Wanted {
  readonly service: string;
  readonly family: Family;
  readonly port: number;
  /** Addresses to listen on, sorted. */
  readonly hosts: readonly string[];
}

const families: readonly Family[] = ['IPv4', 'IPv6'];
const anyHost = { IPv4: '0.0.0.0', IPv6: '::' } as const;
/** Somebody else has the port: they may keep it for long. */
const retryLimits = { firstMs: 1000, secondMs: 5000, maxMs: 60_000 };

export class ServiceHealth {
  readonly #options: ServiceHealthOptions;
  readonly #ports: Record<Family, Map<string, HealthPort>> = { IPv4: new Map(), IPv6: new Map() };
  /** Services to look at when what was resolved is in force. */
  readonly #changed: Record<Family, Set<string>> = { IPv4: new Set(), IPv6: new Set() };
  readonly #pacer = new Pacer();
  #hosts: Record<Family, string> = { IPv4: '', IPv6: '' };
  #isClosed = false;

  constructor(options: ServiceHealthOptions) {
    this.#options = options;
  }

  /** `namespace/name` was resolved anew, or has gone. */
  resolved(service: string): void {
    const isWanted = this.#portOf(service) !== 0;
    for (const family of families) {
      if (isWanted || this.#ports[family].has(service)) this.#changed[family].add(service);
    }
  }

  /** What was resolved is in force: only now may load balancers be told. */
  inForce(family: Family): void {
    if (this.#isClosed) return;
    const ports = this.#ports[family];
    const hosts = this.#hostsOf(family);
    if (hosts.join() !== this.#hosts[family]) {
      for (const service of ports.keys()) this.#changed[family].add(service);
      this.#hosts = { ...this.#hosts, [family]: hosts.join() };
    }
    const services = [...this.#changed[family]];
    this.#changed[family].clear();
    // All that closes comes first: a port may pass from one Service to another.
    const opening = services.filter((service) => this.#closeUnlessSame(service, family, hosts));
    for (const service of opening) {
      ports.set(service, this.#open({ service, family, port: this.#portOf(service), hosts }));
    }
    for (const service of services) {
      const count = countLocalReady(this.#options.state.slices(service), family);
      ports.get(service)?.report(count);
    }
  }

  close(): void {
    this.#isClosed = true;
    for (const ports of Object.values(this.#ports)) {
      for (const port of ports.values()) port.close();
      ports.clear();
    }
  }

  /** True when the Service has a port to be opened. */
  #closeUnlessSame(service: string, family: Family, hosts: readonly string[]): boolean {
    const port = this.#portIn(service, family);
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
      opened: () => observer({ kind: 'opened', service, family, port }),
      failed: (error, retryMs) => observer({ kind: 'failed', service, port, error, retryMs }),
    });
  }

  /** 0 = none. */
  #portOf(name: string): number {
    const service = this.#options.state.service(name);
    return service === undefined ? 0 : healthCheckNodePort(service);
  }

  #portIn(name: string, family: Family): number {
    const clusterIPs = this.#options.state.service(name)?.clusterIPs ?? [];
    return clusterIPs.some((address) => address.family === family) ? this.#portOf(name) : 0;
  }

  #hostsOf(family: Family): string[] {
    const addresses = this.#options.addresses(family);
    if (addresses === 'all') return [anyHost[family]];
    return addresses.map(({ bytes }) => formatAddress(bytes)).sort();
  }
}

interface HealthPortOptions extends Pick<ServiceHealthOptions, 'clock' | 'healthy'> {
  /** Shared: thousands of ports may be opened at once. */
  readonly pacer: Pacer;
  readonly opened: () => void;
  readonly failed: (error: Error, retryMs: number) => void;
}

/** The listeners of one Service in one family: all of its addresses, or none. */
class HealthPort {
  readonly #wanted: Wanted;
  readonly #options: HealthPortOptions;
  readonly #backoff: Backoff;
  #localEndpoints = 0;
  #servers: readonly Server[] = [];
  #cancelRetry = (): void => {};
  #isClosed = false;

  constructor(wanted: Wanted, options: HealthPortOptions) {
    this.#wanted = wanted;
    this.#options = options;
    this.#backoff = new Backoff(retryLimits, options.clock);
    void this.#listen();
  }

  get port(): number {
    return this.#wanted.port;
  }

  is(port: number, hosts: readonly string[]): boolean {
    return port === this.#wanted.port && hosts.join() === this.#wanted.hosts.join();
  }

  /** Endpoints on this node that are ready. */
  report(localEndpoints: number): void {
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
    return createServer((_request, response) => {
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
  }
}

function close(servers: readonly Server[]): void {
  for (const server of servers) {
    server.close();
    server.closeAllConnections();
  }
}

import { createServer, type Server } from 'node:http';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Address, Family } from '../../../src/net/address.ts';
import { ServiceHealth } from '../../../src/serve/service-health.ts';
import { ClusterState } from '../../../src/state/store.ts';
import type { Service } from '../../../src/state/types.ts';
import { httpHere } from '../../fake/http-here.ts';
import { freePort } from '../free-port.ts';
import {
  address,
  draining,
  drainingLocal,
  ready,
  readyLocal,
  service,
  slice,
} from '../state/build.ts';
import { quiet, ToyClock } from '../sync/double.ts';

async function listening(port: number): Promise<Server> {
  const server = createServer().listen(port, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(() => void server.close());
  return server;
}

const clusterIPs = ['10.96.0.1', 'fd00::1'];

/** A Service of type LoadBalancer with external policy Local. */
function local(port: number, fields: Parameters<typeof service>[0] = {}): Service {
  return service({
    type: 'LoadBalancer',
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: port,
    clusterIPs,
    ...fields,
  });
}

class World {
  readonly state = new ClusterState();
  readonly clock = new ToyClock();
  readonly told: string[] = [];
  healthy = true;
  addresses: Record<Family, readonly Address[] | 'all'> = {
    IPv4: [address('127.0.0.1')],
    IPv6: [address('::1')],
  };
  readonly #health: ServiceHealth;

  readonly #families: readonly Family[];

  constructor(families: readonly Family[] = ['IPv4', 'IPv6']) {
    this.#families = families;
    const http = httpHere({ healthy: () => this.healthy });
    this.#health = new ServiceHealth({
      state: this.state,
      clock: this.clock,
      http,
      agent: { enabledFamilies: families },
      addresses: (family) => this.addresses[family],
      observer: (event) => {
        const how = event.kind === 'failed' ? event.error.message.split(' ')[1] : event.family;
        this.told.push(`${event.service} ${event.port} ${event.kind} ${how}`);
      },
    });
    onTestFinished(() => {
      this.#health.close();
      http.close();
    });
  }

  async sync(...names: string[]): Promise<void> {
    for (const name of names) this.#health.resolved(name);
    for (const family of this.#families) this.inForce(family);
    await quiet();
  }

  resolved(name: string): void {
    this.#health.resolved(name);
  }

  inForce(family: Family): void {
    this.#health.inForce(family);
  }

  async services(...services: Service[]): Promise<void> {
    for (const one of services) this.state.apply({ kind: 'service', service: one });
    await this.sync(...services.map(({ namespace, name }) => `${namespace}/${name}`));
  }

  async endpoints(...slices: ReturnType<typeof slice>[]): Promise<void> {
    for (const one of slices) this.state.apply({ kind: 'slice', slice: one });
    await this.sync('ns/web');
  }
}

async function get(port: number, host = '127.0.0.1', init: RequestInit = {}) {
  const response = await fetch(`http://${host}:${port}/`, init);
  return { status: response.status, weight: weightOf(response), body: await response.text() };
}

function weightOf({ headers }: Response): string | null {
  return headers.get('x-load-balancing-endpoint-weight');
}

async function statusOf(port: number, host?: string): Promise<number | 'refused'> {
  return get(port, host).then(
    ({ status }) => status,
    () => 'refused',
  );
}

describe('a large number of health check node ports', () => {
  it('is not opened in one turn of the event loop', async () => {
    const world = new World();
    world.addresses = { IPv4: [address('127.0.0.1')], IPv6: [] };
    const ports = await Promise.all(Array.from({ length: 20 }, freePort));
    const told = new Map<string, number>();
    let turn = 0;
    const count = (): void => {
      turn += 1;
      for (const event of world.told) if (!told.has(event)) told.set(event, turn);
      counting = setImmediate(count);
    };
    let counting = setImmediate(count);
    // Longer than one turn may take, so that each port waits for another.
    let nowMs = performance.now();
    const spy = vi.spyOn(performance, 'now').mockImplementation(() => (nowMs += 20));
    onTestFinished(() => spy.mockRestore());
    await world.services(...ports.map((port, i) => local(port, { name: `web-${i}` })));
    while (told.size < ports.length) await quiet();
    clearImmediate(counting);
    expect(new Set(told.values()).size).toBeGreaterThan(ports.length / 2);
  });
});

describe('a health check node port', () => {
  it('answers with the number of ready endpoints here, for each family separately', async () => {
    const [world, port] = [new World(), await freePort()];
    await world.services(local(port));
    expect(await get(port)).toEqual({
      status: 503,
      weight: '0',
      body:
        '{\n\t"service": {\n\t\t"namespace": "ns",\n\t\t"name": "web"\n\t},\n' +
        '\t"localEndpoints": 0,\n\t"serviceProxyHealthy": true\n}',
    });
    await world.endpoints(
      slice({ '10.244.0.2': readyLocal, '10.244.0.3': readyLocal, '10.244.9.9': ready }),
      slice({ 'fd00:244::2': readyLocal }, { key: 'ns/web-6', family: 'IPv6' }),
    );
    const v4 = await get(port, '127.0.0.1', { method: 'POST', body: 'x' });
    expect([v4.status, v4.weight, JSON.parse(v4.body).localEndpoints]).toEqual([200, '2', 2]);
    const v6 = await get(port, '[::1]');
    expect([v6.status, v6.weight]).toEqual([200, '1']);
    const response = await fetch(`http://127.0.0.1:${port}/any/path?at=all`);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('application/json');
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
    await response.text();
  });

  it('answers at addresses of both families, whatever families the Service has', async () => {
    for (const [clusterIP, pod, key] of [
      ['10.96.0.1', '10.244.0.2', { key: 'ns/web-4' }],
      ['fd00::1', 'fd00:244::2', { key: 'ns/web-6', family: 'IPv6' }],
    ] as const) {
      const [world, port] = [new World(), await freePort()];
      await world.services(local(port, { clusterIPs: [clusterIP] }));
      expect([await statusOf(port), await statusOf(port, '[::1]')]).toEqual([503, 503]);
      await world.endpoints(slice({ [pod]: readyLocal }, key));
      for (const host of ['127.0.0.1', '[::1]']) {
        expect(await get(port, host)).toMatchObject({ status: 200, weight: '1' });
      }
      world.state.apply({ kind: 'service-gone', key: 'ns/web' });
      await world.sync('ns/web');
      expect([await statusOf(port), await statusOf(port, '[::1]')]).toEqual(['refused', 'refused']);
    }
  });

  it('answers about the other family at an address of a family that the Service lacks', async () => {
    const [world, port] = [new World(), await freePort()];
    await world.services(local(port, { clusterIPs: ['10.96.0.1'] }));
    world.state.apply({ kind: 'slice', slice: slice({ '10.244.0.2': readyLocal }) });
    world.resolved('ns/web');
    world.inForce('IPv6');
    expect(await statusOf(port, '[::1]')).toBe(503);
    world.inForce('IPv4');
    expect(await statusOf(port, '[::1]')).toBe(200);
    await world.services(local(port));
    expect(await statusOf(port, '[::1]')).toBe(503);
    await world.services(local(port, { clusterIPs: ['10.96.0.1'] }));
    expect(await statusOf(port, '[::1]')).toBe(200);
    expect(world.told.filter((event) => event.includes('opened'))).toHaveLength(2);
    // Only one family has something to do when a Service of one family goes.
    world.state.apply({ kind: 'service-gone', key: 'ns/web' });
    world.resolved('ns/web');
    world.inForce('IPv4');
    expect([await statusOf(port), await statusOf(port, '[::1]')]).toEqual(['refused', 'refused']);
  });

  it('is not opened at addresses of a family that this machine does not support', async () => {
    const [world, port] = [new World(['IPv4']), await freePort()];
    world.addresses = { IPv4: [address('127.0.0.1')], IPv6: 'all' };
    await world.services(local(port));
    expect(world.told).toEqual([`ns/web ${port} opened IPv4`]);
    expect(await statusOf(port, '[::1]')).toBe('refused');
  });

  it('does not count terminating endpoints, although traffic may still be sent there', async () => {
    const [world, port] = [new World(), await freePort()];
    await world.services(local(port));
    await world.endpoints(slice({ '10.244.0.2': readyLocal }));
    expect(await statusOf(port)).toBe(200);
    await world.endpoints(slice({ '10.244.0.2': drainingLocal, '10.244.0.3': draining }));
    expect(await get(port)).toMatchObject({ status: 503, weight: '0' });
  });

  it('reports that the proxy is unhealthy, with the weight unchanged', async () => {
    const [world, port] = [new World(), await freePort()];
    await world.services(local(port));
    await world.endpoints(slice({ '10.244.0.2': readyLocal }));
    world.healthy = false;
    const { status, weight, body } = await get(port);
    expect([status, weight, JSON.parse(body).serviceProxyHealthy]).toEqual([503, '1', false]);
  });

  it('keeps its old answer until the resolved state is in force', async () => {
    const [world, port] = [new World(), await freePort()];
    await world.services(local(port));
    world.state.apply({ kind: 'slice', slice: slice({ '10.244.0.2': readyLocal }) });
    expect(await statusOf(port)).toBe(503);
    await world.sync('ns/web');
    expect(await statusOf(port)).toBe(200);
  });

  it('exists only for load balancers with external policy Local, and is closed with them', async () => {
    const [world, port] = [new World(['IPv4']), await freePort()];
    await world.services(local(port, { externalTrafficPolicy: 'Cluster' }));
    expect(await statusOf(port)).toBe('refused');
    await world.services(local(port, { type: 'NodePort' }));
    expect(await statusOf(port)).toBe('refused');
    await world.services(local(port, { clusterIPs: ['10.96.0.1'] }));
    expect(await statusOf(port)).toBe(503);
    world.state.apply({ kind: 'service-gone', key: 'ns/web' });
    await world.sync('ns/web');
    expect(await statusOf(port)).toBe('refused');
    expect(world.told).toEqual([`ns/web ${port} opened IPv4`, `ns/web ${port} closed IPv4`]);
  });

  it('moves when its number changes, and to another Service that gets its number', async () => {
    const [world, first, second] = [new World(), await freePort(), await freePort()];
    await world.services(local(first));
    await world.services(local(second), local(first, { name: 'other' }));
    expect(JSON.parse((await get(first)).body).service.name).toBe('other');
    expect(JSON.parse((await get(second)).body).service.name).toBe('web');
  });

  it('is at every address of its family, or at those that accept node ports', async () => {
    const [world, port] = [new World(), await freePort()];
    world.addresses = { IPv4: 'all', IPv6: 'all' };
    await world.services(local(port));
    expect(await Promise.all([statusOf(port, '127.0.0.9'), statusOf(port, '[::1]')])).toEqual([
      503, 503,
    ]);
    world.addresses = { IPv4: [address('127.0.0.2'), address('127.0.0.3')], IPv6: [] };
    await world.sync();
    const hosts = ['127.0.0.1', '127.0.0.2', '127.0.0.3', '[::1]'];
    const statuses = await Promise.all(hosts.map((host) => statusOf(port, host)));
    expect(statuses).toEqual(['refused', 503, 503, 'refused']);
    world.addresses = { IPv4: [], IPv6: [address('::1')] };
    await world.sync();
    expect(await statusOf(port, '[::1]')).toBe(503);
    expect(await statusOf(port, '127.0.0.2')).toBe('refused');
  });

  it('in use by another program is reported, opened at no address, and retried', async () => {
    const port = await freePort();
    const taken = await listening(port);
    const world = new World();
    world.addresses = { IPv4: [address('127.0.0.1'), address('127.0.0.2')], IPv6: [] };
    await world.services(local(port));
    expect(world.told).toEqual([`ns/web ${port} failed EADDRINUSE:`]);
    expect(await statusOf(port, '127.0.0.2')).toBe('refused');
    for (const [i, ms] of [1000, 5000, 10_000, 20_000, 40_000, 60_000].entries()) {
      await world.clock.pass(ms - 1);
      expect(world.told).toHaveLength(i + 1);
      await world.clock.pass(1);
      expect(world.told).toHaveLength(i + 2);
    }
    taken.close();
    await world.clock.pass(60_000);
    expect(world.told.at(-1)).toBe(`ns/web ${port} opened IPv4`);
    expect(await statusOf(port, '127.0.0.2')).toBe(503);
  });

  it('in use by another program is not retried after the Service was deleted', async () => {
    const port = await freePort();
    const taken = await listening(port);
    const world = new World();
    await world.services(local(port, { clusterIPs: ['10.96.0.1'] }));
    world.state.apply({ kind: 'service-gone', key: 'ns/web' });
    await world.sync('ns/web');
    taken.close();
    await world.clock.pass(600_000);
    expect(await statusOf(port)).toBe('refused');
  });
});

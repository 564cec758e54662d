import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type Server } from 'node:http';
import { connect } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Config } from '../../../src/config/config.ts';
import { fairleadVersion } from '../../../src/config/version.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import { ProxyHealth } from '../../../src/serve/health.ts';
import { Metrics } from '../../../src/serve/metrics.ts';
import { profileRoutes } from '../../../src/serve/profile.ts';
import type { Routes } from '../../../src/serve/reply.ts';
import { serve } from '../../../src/serve/server.ts';
import { metricsRoutes } from '../../../src/serve/servers.ts';
import { httpHere } from '../../fake/http-here.ts';
import { freePort } from '../free-port.ts';
import { address, node } from '../state/build.ts';
import { fakeTimeouts, turnsUntil } from '../turns.ts';
import { healthyInput } from './healthy-input.ts';

const ends: (() => Promise<unknown> | undefined)[] = [];

afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

/** Serves on a free port of loopback; resolves to the URL when it answers. */
async function serving(routes: Routes | 'probes', http = newHttp()): Promise<string> {
  const port = await freePort();
  const stop = new AbortController();
  const at = { address: address('127.0.0.1'), port };
  const options = { http, at, routes, onBindFailure: 'fail', problem: () => {} } as const;
  const running = serve(options, stop.signal);
  ends.push(() => {
    stop.abort();
    return running;
  });
  return `http://127.0.0.1:${port}`;
}

function newHttp(...told: Parameters<typeof httpHere>): ReturnType<typeof httpHere> {
  const http = httpHere(...told);
  ends.push(async () => http.close());
  return http;
}

async function get(url: string, method = 'GET') {
  const response = await fetch(url, { method });
  const headers = Object.fromEntries(
    ['content-type', 'x-content-type-options'].map((name) => [name, response.headers.get(name)]),
  );
  return { status: response.status, headers, body: await response.text() };
}

function newMetrics(): Metrics {
  const metrics = new Metrics(async () => []);
  ends.push(async () => metrics.close());
  return metrics;
}

const own = fairleadVersion.slice(1);
const nosniff = { 'x-content-type-options': 'nosniff' };

describe('the health server', () => {
  it('answers /healthz, /livez and /readyz, counts the first two, and has no other path', async () => {
    const metrics = newMetrics();
    const seen = { node: node() };
    const health = new ProxyHealth({ ...healthyInput, state: seen });
    const http = newHttp({ answer: (path) => health.answer(path) });
    metrics.probes = http.memory;
    const url = await serving('probes', http);
    const headers = { 'content-type': 'application/json', ...nosniff };
    const well = '{"lastUpdated":"1970-01-01T00:00:00Z","currentTime":"1970-01-01T00:00:00Z"';
    expect(await get(`${url}/healthz`)).toEqual({
      status: 200,
      headers,
      body: `${well},"nodeEligible":true,"healthy":true}`,
    });
    expect(await get(`${url}/livez?verbose`, 'POST')).toEqual({
      status: 200,
      headers,
      body: `${well},"healthy":true}`,
    });
    seen.node = node({ deleted: true });
    expect((await get(`${url}/healthz`)).status).toBe(503);
    expect((await get(`${url}/readyz`)).status).toBe(503);
    expect((await get(`${url}/ready`)).status).toBe(404);
    const text = await metrics.registry.metrics();
    expect(text).toContain('kubeproxy_proxy_healthz_total{code="200"} 1\n');
    expect(text).toContain('kubeproxy_proxy_healthz_total{code="503"} 1\n');
    expect(text).toContain('kubeproxy_proxy_livez_total{code="200"} 1\n');
  });
});

describe('a connection that seems idle, because the thread had to wait for the processor', () => {
  it('is not closed when a request is waiting on it', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    ends.push(async () => void vi.useRealTimers());
    const { hostname, port } = new URL(
      await serving({ '/': () => ({ status: 200, headers: {}, body: 'here' }) }),
    );
    const socket = connect(Number(port), hostname);
    ends.push(async () => socket.destroy());
    const answer = async (): Promise<string> => String((await once(socket, 'data'))[0]);
    const request = 'GET / HTTP/1.1\r\nHost: here\r\n\r\n';
    socket.write(request);
    expect(await answer()).toMatch(/^HTTP\/1.1 200 /);
    const laterMs = performance.now() + 6000;
    const now = vi.spyOn(performance, 'now').mockImplementation(() => laterMs);
    ends.push(async () => now.mockRestore());
    // From here, the loop reads what arrives before the next immediates.
    await new Promise(setImmediate);
    socket.write(request);
    // The second after which connections are looked at.
    vi.advanceTimersByTime(1000);
    expect(await answer()).toMatch(/^HTTP\/1.1 200 /);
  });
});

describe('the metrics server', () => {
  const text = { 'content-type': 'text/plain; charset=utf-8', ...nosniff };

  function routes(gates: Record<string, boolean> = {}): Routes {
    const document = { kind: 'KubeProxyConfiguration', mode: 'nftables' };
    const featureGates = { ComponentFlagz: true, ComponentStatusz: true, ...gates };
    const flags = [
      { name: 'bind-address', value: '0.0.0.0' },
      { name: 'v', value: '2' },
    ];
    const config = { document, featureGates, flags, kubernetesVersion: 'v1.36.2' };
    const agent = { config: config as unknown as Config, mode: nftablesMode };
    return metricsRoutes(agent, newMetrics());
  }

  it("answers kube-proxy's paths", async () => {
    const url = await serving(routes());
    expect(await get(`${url}/healthz`)).toEqual({ status: 200, headers: text, body: 'ok' });
    expect(await get(`${url}/proxyMode`)).toEqual({ status: 200, headers: text, body: 'nftables' });
    expect(await get(`${url}/configz`)).toEqual({
      status: 200,
      headers: { 'content-type': 'application/json', ...nosniff },
      body: '{"kubeproxy.config.k8s.io":' + '{"kind":"KubeProxyConfiguration","mode":"nftables"}}',
    });
    const metrics = await get(`${url}/metrics`);
    expect(metrics.headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(metrics.body).toContain('# TYPE kubeproxy_sync_proxy_rules_duration_seconds histogram');
    expect((await get(`${url}/`)).status).toBe(404);
    expect((await get(`${url}/toString`)).status).toBe(404);
  });

  it.each([
    ['gzip', true],
    ['gzip;q=1.0,*;q=0.1', true],
    ['identity, GZIP', true],
    ['gzip;q=0', false],
    ['zstd, br', false],
    ['', false],
  ])('compresses metrics for clients that accept it: %j', async (accepted, isCompressed) => {
    const { port } = new URL(await serving(routes()));
    const options = { port, path: '/metrics', headers: { 'accept-encoding': accepted } };
    const response = await new Promise<IncomingMessage>((resolve) => {
      request(options, resolve).end();
    });
    const parts: Buffer[] = [];
    for await (const part of response) parts.push(part as Buffer);
    const body = Buffer.concat(parts);
    expect(response.headers['content-encoding']).toBe(isCompressed ? 'gzip' : undefined);
    expect(response.headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8');
    const text = (isCompressed ? gunzipSync(body) : body).toString();
    expect(text).toContain('# TYPE kubeproxy_sync_proxy_rules_duration_seconds histogram');
    if (isCompressed) expect(body.length).toBeLessThan(text.length / 4);
  });

  it('counts requests of its own /healthz, until the count is deleted', async () => {
    const url = await serving(routes());
    const ofHealth = async (method = 'GET'): Promise<string[]> => {
      const { body } = await get(`${url}/metrics/slis`, method);
      return body.split('\n').filter((line) => line.startsWith('kubernetes_'));
    };
    expect(await ofHealth()).toEqual([]);
    expect((await get(`${url}/healthz?verbose`)).body).toBe('[+]ping ok\nhealthz check passed\n');
    expect((await get(`${url}/healthz/ping?exclude=ping&verbose=1`)).body).toBe(
      '[+]ping excluded: ok\nhealthz check passed\n',
    );
    await get(`${url}/healthz`);
    expect(await ofHealth()).toEqual([
      'kubernetes_healthcheck{name="ping",type="healthz"} 1',
      'kubernetes_healthchecks_total{name="ping",type="healthz",status="success"} 2',
    ]);
    const { body } = await get(`${url}/metrics/slis`);
    const started = Number(/^process_start_time_seconds (\S+)$/m.exec(body)![1]);
    expect(Math.abs(started - (Date.now() / 1000 - process.uptime()))).toBeLessThan(1);
    expect((await get(`${url}/metrics/slis`, 'DELETE')).body).toBe('metrics reset\n');
    expect(await ofHealth()).toEqual([]);
  });

  it('shows flags and status to people', async () => {
    const uptime = vi.spyOn(process, 'uptime').mockReturnValue(7322);
    const url = await serving(routes());
    uptime.mockRestore();
    const flagz = await get(`${url}/flagz`);
    expect(flagz).toMatchObject({ status: 200, headers: text });
    expect(flagz.body).toMatch(/^\nfairlead flagz\nWarning: .*\n\nbind-address=0.0.0.0\nv=2\n$/);
    const statusz = await get(`${url}/statusz`);
    expect(statusz.body).toMatch(/^\nfairlead statusz\nWarning: /);
    expect(statusz.body).toMatch(/^Started: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/m);
    expect(statusz.body).toMatch(/^Up: 2 hr 02 min \d\d sec$/m);
    expect(statusz.body).toContain(`Binary version: ${own}\nEmulation version: 1.36\n`);
    const paths = 'Paths: /configz /flagz /healthz /metrics /proxyMode\n';
    expect(statusz.body).toContain(paths);
  });

  it('shows flags and status to programs in the requested format, and rejects others', async () => {
    const url = await serving(routes());
    const ask = async (path: string, accept: string) => {
      const response = await fetch(`${url}${path}`, { headers: { accept } });
      const { headers, status } = response;
      return {
        status,
        type: headers.get('content-type'),
        warning: headers.get('warning'),
        response,
      };
    };
    const beta = 'v=v1beta1;g=config.k8s.io';
    const json = await ask('/flagz', `application/json;as=Flagz;${beta}`);
    expect(json).toMatchObject({ status: 200, type: 'application/json', warning: null });
    expect(await json.response.json()).toEqual({
      kind: 'Flagz',
      apiVersion: 'config.k8s.io/v1beta1',
      metadata: { name: 'fairlead' },
      flags: { 'bind-address': '0.0.0.0', v: '2' },
    });
    const alpha = await ask(
      '/statusz',
      'application/json; as=Statusz; v=v1alpha1; g=config.k8s.io',
    );
    expect(alpha.warning).toBe(
      '299 - "config.k8s.io/v1alpha1 Statusz is deprecated, use config.k8s.io/v1beta1"',
    );
    expect(await alpha.response.json()).toMatchObject({
      kind: 'Statusz',
      apiVersion: 'config.k8s.io/v1alpha1',
      startTime: expect.stringMatching(/^\d{4}-.*Z$/),
      uptimeSeconds: expect.any(Number),
      metadata: { name: 'fairlead' },
      binaryVersion: own,
      emulationVersion: '1.36',
      paths: ['/configz', '/flagz', '/healthz', '/metrics', '/proxyMode'],
    });
    const yaml = await ask('/flagz', `text/html, application/yaml;as=Flagz;${beta}`);
    expect([yaml.type, await yaml.response.text()]).toEqual([
      'application/yaml',
      'kind: Flagz\napiVersion: config.k8s.io/v1beta1\nmetadata:\n  name: fairlead\n' +
        'flags:\n  bind-address: 0.0.0.0\n  v: "2"\n',
    ]);
    for (const accept of [
      'application/json',
      `application/json;as=Statusz;${beta}`,
      'application/json;as=Flagz;v=v2;g=config.k8s.io',
      `application/cbor;as=Flagz;${beta}`,
      'text/html',
    ]) {
      expect((await ask('/flagz', accept)).status).toBe(406);
    }
    expect((await ask('/flagz', 'application/json, */*;q=0.1')).type).toContain('text/plain');
  });

  it('shows no flags or status if their gates are off', async () => {
    const url = await serving(routes({ ComponentFlagz: false, ComponentStatusz: false }));
    expect((await get(`${url}/flagz`)).status).toBe(404);
    expect((await get(`${url}/statusz`)).status).toBe(404);
    const other = await serving(routes({ ComponentFlagz: false }));
    expect((await get(`${other}/statusz`)).body).toContain('Paths: /configz /healthz /metrics ');
  });
});

describe('CPU profiles', () => {
  it('are taken on request, one at a time', async () => {
    const url = await serving(profileRoutes());
    const index = await fetch(`${url}/debug/pprof`, { redirect: 'manual' });
    expect([index.status, index.headers.get('location')]).toEqual([302, '/debug/pprof/']);
    expect((await get(`${url}/debug/pprof/`)).body).toContain('/debug/pprof/profile?seconds=');
    const profiles = () => [1, 2].map(() => get(`${url}/debug/pprof/profile?seconds=0.2`));
    let statuses: number[];
    do {
      statuses = (await Promise.all(profiles())).map(({ status }) => status).sort();
      // A busy machine may read the second request when the first is answered.
    } while (statuses.every((status) => status === 200));
    expect(statuses).toEqual([200, 503]);
    const profile = JSON.parse((await get(`${url}/debug/pprof/profile?seconds=0.01`)).body);
    expect(profile.nodes.length).toBeGreaterThan(0);
    for (const seconds of ['0', '-1', 'x', '1e9']) {
      expect((await get(`${url}/debug/pprof/profile?seconds=${seconds}`)).status).toBe(400);
    }
  });
});

describe('a server address in use', () => {
  async function occupied(): Promise<{ port: number; free: () => Promise<void> }> {
    const port = await freePort();
    const server: Server = createServer().listen(port, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const free = (): Promise<void> => new Promise((resolve) => server.close(() => resolve()));
    return { port, free };
  }

  it('is retried until it is free', async () => {
    fakeTimeouts();
    const { port, free } = await occupied();
    const stop = new AbortController();
    const problems: string[] = [];
    let failed = (): void => {};
    const firstFailure = new Promise<void>((resolve) => {
      failed = resolve;
    });
    const running = serve(
      {
        http: newHttp(),
        at: { address: address('127.0.0.1'), port },
        routes: { '/': () => ({ status: 200, headers: {}, body: 'here' }) },
        onBindFailure: 'retry',
        problem: (error) => {
          problems.push(error.message);
          failed();
        },
      },
      stop.signal,
    );
    ends.push(() => {
      stop.abort();
      return running;
    });
    await firstFailure;
    await free();
    const answer = () =>
      get(`http://127.0.0.1:${port}/`).then(
        ({ body }) => body,
        () => 'none',
      );
    await vi.advanceTimersByTimeAsync(4999);
    expect(await answer()).toBe('none');
    await vi.advanceTimersByTimeAsync(1);
    await turnsUntil(async () => (await answer()) === 'here');
    expect(problems[0]).toBe(
      `cannot serve on 127.0.0.1:${port}: listen EADDRINUSE: ` +
        `address already in use 127.0.0.1:${port}: another program has the port, ` +
        'most likely a kube-proxy that runs on this node, too',
    );
  });

  it('ends the process if that is configured', async () => {
    const { port, free } = await occupied();
    ends.push(free);
    const at = { address: address('127.0.0.1'), port };
    const http = newHttp();
    const options = { http, at, routes: {}, onBindFailure: 'fail', problem: () => {} } as const;
    await expect(serve(options, new AbortController().signal)).rejects.toThrow(
      `cannot serve on 127.0.0.1:${port}`,
    );
  });
});

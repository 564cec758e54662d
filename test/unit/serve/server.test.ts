import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import type { Config } from '../../../src/config/config.ts';
import { ProxyHealth } from '../../../src/serve/health.ts';
import { Metrics } from '../../../src/serve/metrics.ts';
import { healthRoutes, metricsRoutes } from '../../../src/serve/routes.ts';
import { type Routes, serve } from '../../../src/serve/server.ts';
import { address, node } from '../state/build.ts';

const ends: (() => Promise<unknown> | undefined)[] = [];

afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Serves on a free port of loopback; resolves to the URL when it answers. */
async function serving(routes: Routes): Promise<string> {
  const port = await freePort();
  const stop = new AbortController();
  const at = { address: address('127.0.0.1'), port };
  const running = serve({ at, routes, onBindFailure: 'fail', problem: () => {} }, stop.signal);
  ends.push(() => {
    stop.abort();
    return running;
  });
  return `http://127.0.0.1:${port}`;
}

async function get(url: string, method = 'GET') {
  const response = await fetch(url, { method });
  const headers = Object.fromEntries(
    ['content-type', 'x-content-type-options'].map((name) => [name, response.headers.get(name)]),
  );
  return { status: response.status, headers, body: await response.text() };
}

function newMetrics(): Metrics {
  const metrics = new Metrics({ silenceMs: () => undefined, families: () => [] });
  ends.push(async () => metrics.close());
  return metrics;
}

const nosniff = { 'x-content-type-options': 'nosniff' };

describe('the health server', () => {
  it('answers /healthz and /livez, counts them, and knows nothing else', async () => {
    const metrics = newMetrics();
    const seen = { node: node() };
    const health = new ProxyHealth({
      timeoutMs: () => 60_000,
      now: () => 0,
      node: () => seen.node,
      silenceMs: () => undefined,
    });
    const url = await serving(healthRoutes(health, metrics));
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
    expect((await get(`${url}/readyz`)).status).toBe(404);
    const text = await metrics.registry.metrics();
    expect(text).toContain('kubeproxy_proxy_healthz_total{code="200"} 1\n');
    expect(text).toContain('kubeproxy_proxy_healthz_total{code="503"} 1\n');
    expect(text).toContain('kubeproxy_proxy_livez_total{code="200"} 1\n');
  });
});

describe('the metrics server', () => {
  it('answers the paths of kube-proxy', async () => {
    const document = { kind: 'KubeProxyConfiguration', mode: 'nftables' };
    const config = { document } as unknown as Config;
    const url = await serving(
      metricsRoutes(
        () => config,
        () => 'nftables',
        newMetrics(),
      ),
    );
    const text = { 'content-type': 'text/plain; charset=utf-8', ...nosniff };
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
});

describe('an address that is taken', () => {
  async function occupied(): Promise<{ port: number; free: () => Promise<void> }> {
    const server: Server = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address() as AddressInfo;
    const free = (): Promise<void> => new Promise((resolve) => server.close(() => resolve()));
    return { port, free };
  }

  it('is tried again until it is free', async () => {
    const { port, free } = await occupied();
    const stop = new AbortController();
    const problems: string[] = [];
    let failed = (): void => {};
    const firstFailure = new Promise<void>((resolve) => {
      failed = resolve;
    });
    const running = serve(
      {
        at: { address: address('127.0.0.1'), port },
        routes: { '/': () => ({ status: 200, headers: {}, body: 'here' }) },
        onBindFailure: 'retry',
        problem: (error) => {
          problems.push(error.message);
          failed();
        },
        retryMs: 10,
      },
      stop.signal,
    );
    ends.push(() => {
      stop.abort();
      return running;
    });
    await firstFailure;
    await free();
    let body = '';
    for (let i = 0; i < 100 && body === ''; i += 1) {
      await new Promise((resolve) => setTimeout(resolve, 10));
      body = await get(`http://127.0.0.1:${port}/`).then(
        (reply) => reply.body,
        () => '',
      );
    }
    expect(body).toBe('here');
    expect(problems[0]).toBe(
      `cannot serve on 127.0.0.1:${port}: listen EADDRINUSE: ` +
        `address already in use 127.0.0.1:${port}`,
    );
  });

  it('is the end when that was asked for', async () => {
    const { port, free } = await occupied();
    ends.push(free);
    const at = { address: address('127.0.0.1'), port };
    const options = { at, routes: {}, onBindFailure: 'fail', problem: () => {} } as const;
    await expect(serve(options, new AbortController().signal)).rejects.toThrow(
      `cannot serve on 127.0.0.1:${port}`,
    );
  });
});

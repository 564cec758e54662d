import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net';
import { text } from 'node:stream/consumers';
import { createSecureContext, type TLSSocket } from 'node:tls';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { describeNetworkError, isUnreached } from '../../../../src/source/kubernetes/errors.ts';
import { readAccess } from '../../../../src/source/kubernetes/kubeconfig.ts';
import { createTransport, type Transport } from '../../../../src/source/kubernetes/transport.ts';
import { createAuthority } from '../../../fake/api-server-certificate.ts';
import { until } from '../../until.ts';

const authority = createAuthority();
const trusting = (): ReturnType<typeof createSecureContext> =>
  createSecureContext({ ca: authority.certificate });

afterEach(() => void vi.useRealTimers());

describe('connections to the API server', () => {
  it('resume the TLS session of an earlier one', async () => {
    const certificate = authority.issue('server', ['127.0.0.1']);
    const resumed: boolean[] = [];
    const listener: RequestListener = ({ socket, url }, response) => {
      resumed.push((socket as TLSSocket).isSessionReused());
      response.writeHead(200).flushHeaders();
      if (url === '/list') response.end();
    };
    const port = await listen(
      createSecureServer({ cert: certificate.certificate, key: certificate.key }, listener),
    );
    const transport = transportTo(`https://127.0.0.1:${port}`);
    await text((await get(transport, '/list')).body);
    await get(transport, '/watch');
    const { body } = await get(transport, '/list');
    expect(await text(body)).toBe('');
    expect(resumed).toEqual([false, false, true]);
  });

  it('are reused for the next request, but by one request at a time', async () => {
    const ports: (number | undefined)[] = [];
    const { url } = await serve(({ socket, url: path }, response) => {
      ports.push(socket.remotePort);
      response.writeHead(200).flushHeaders();
      if (path === '/list') response.end('all');
    });
    const transport = transportTo(url);
    expect(await text((await get(transport, '/list')).body)).toBe('all');
    await new Promise(setImmediate);
    await get(transport, '/watch');
    await get(transport, '/watch');
    expect(ports[1]).toBe(ports[0]);
    expect(ports[2]).not.toBe(ports[0]);
  });

  it('are replaced if the server has closed an unused one', async () => {
    const ports: (number | undefined)[] = [];
    const { url } = await serve(({ socket }, response) => {
      const isFirst = !ports.includes(socket.remotePort);
      ports.push(socket.remotePort);
      // As if it had closed the connection before the request came.
      if (isFirst) response.end('answered');
      else socket.destroy();
    });
    const transport = transportTo(url);
    expect(await text((await get(transport, '/')).body)).toBe('answered');
    await new Promise(setImmediate);
    expect(await text((await get(transport, '/')).body)).toBe('answered');
    expect(ports[1]).toBe(ports[0]);
    expect(ports[2]).not.toBe(ports[0]);
    await new Promise(setImmediate);
    const { signal } = new AbortController();
    const event = { method: 'POST', path: '/', headers: {}, body: '{}', signal } as const;
    await expect(transport.request(event)).rejects.toThrow();
    expect(ports).toHaveLength(4);
  });

  it('to an IPv6 address work, with the address in brackets', async () => {
    const hosts: (string | undefined)[] = [];
    const server = createServer(({ headers }, response) => {
      hosts.push(headers.host);
      response.end('here');
    });
    const port = await listen(server, '::1');
    const transport = transportTo(`http://[::1]:${port}`);
    expect(await text((await get(transport, '/')).body)).toBe('here');
    expect(hosts).toEqual([`[::1]:${port}`]);
  });

  it('that are retired complete their requests, and accept no others', async () => {
    let finish = (): void => {};
    const { server, url } = await serve((_, response) => {
      response.writeHead(200).write('first');
      finish = () => response.end(', last');
    });
    const transport = transportTo(url);
    const { body } = await get(transport, '/watch');
    const retired = transport.retire();
    finish();
    expect(await text(body)).toBe('first, last');
    await retired;
    await until('closed', async () => (await connections(server)) === 0);
  });

  it('are closed at the end', async () => {
    const { url } = await serve((_, response) => void response.writeHead(200).flushHeaders());
    const transport = transportTo(url);
    const { body } = await get(transport, '/watch');
    transport.destroy();
    await expect(text(body)).rejects.toThrow();
  });

  it('fail if the server does not complete TLS within ten seconds', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const server = createTcpServer((socket) => socket.on('error', () => {}));
    const port = await listen(server);
    const accepted = once(server, 'connection');
    const answer = get(transportTo(`https://127.0.0.1:${port}`), '/').catch((error) => error);
    await accepted;
    await vi.advanceTimersByTimeAsync(10_000);
    const error = await answer;
    expect(describeNetworkError(error)).toBe('timed out (ETIMEDOUT)');
    expect(isUnreached(error)).toBe(true);
  });
});

describe('a connection that the server closes', () => {
  const closed = 'the server closed the connection';

  it('before it answers is reported as such', async () => {
    const { url } = await serve(({ socket }) => void socket.end());
    const error = await get(transportTo(url), '/').catch((reason) => reason);
    expect(describeNetworkError(error)).toBe(closed);
    expect(isUnreached(error)).toBe(false);
  });

  it('in the middle of an answer is reported as such', async () => {
    const { url } = await serve(({ socket }, response) => {
      response.writeHead(200, { 'content-length': '100' });
      response.write('some', () => socket.end());
    });
    const { body } = await get(transportTo(url), '/');
    const error = await text(body).catch((reason) => reason);
    expect(describeNetworkError(error)).toBe(closed);
  });

  it('is distinguished from one that is reset', async () => {
    const { url } = await serve(({ socket }, response) => {
      response.writeHead(200, { 'content-length': '100' });
      response.write('some', () => socket.resetAndDestroy());
    });
    const { body } = await get(transportTo(url), '/');
    const error = await text(body).catch((reason) => reason);
    expect(describeNetworkError(error)).toBe('connection reset (ECONNRESET)');
  });
});

function transportTo(masterUrl: string): Transport {
  const access = readAccess({ kubeconfigPath: '', masterUrl, environment: {} });
  const transport = createTransport(access, trusting());
  onTestFinished(() => transport.destroy());
  return transport;
}

async function get(transport: Transport, path: string) {
  const { signal } = new AbortController();
  const response = await transport.request({ method: 'GET', path, headers: {}, signal });
  response.body.on('error', () => {});
  return response;
}

async function serve(listener: RequestListener) {
  const server = createServer(listener);
  return { server, url: `http://127.0.0.1:${await listen(server)}` };
}

async function listen(server: Server, host = '127.0.0.1'): Promise<number> {
  server.listen(0, host);
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

function connections(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
  });
}

/** Proxies as companies have them: HTTP with CONNECT, the same by TLS, and SOCKS5. */
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import {
  type AddressInfo,
  connect,
  createServer as createTcpServer,
  type Server,
  type Socket,
} from 'node:net';
import type { Duplex } from 'node:stream';
import { onTestFinished } from 'vitest';

interface Proxy {
  readonly port: number;
  /** Where it was asked to lead: `api.example:6443`. */
  readonly targets: Set<string>;
  readonly authorizations: Set<string | undefined>;
}

/** It leads every name to this machine. It ends with the test. */
export async function startProxy(
  scheme: 'http' | 'https' | 'socks5',
  { certificate, key }: { readonly certificate: string; readonly key: string },
): Promise<Proxy> {
  const targets = new Set<string>();
  const authorizations = new Set<string | undefined>();
  const lead = (client: Duplex, host: string, port: number, ready: () => void): void => {
    targets.add(`${host}:${port}`);
    const target = connect(port, '127.0.0.1', () => {
      ready();
      target.pipe(client).pipe(target);
    });
    for (const end of [client, target]) end.on('error', () => client.destroy());
    onTestFinished(() => void target.destroy());
  };
  const tunnel = ({ headers, url = '' }: IncomingMessage, client: Duplex): void => {
    authorizations.add(headers['proxy-authorization']);
    const [host = '', port] = url.split(':');
    lead(client, host, Number(port), () => client.write('HTTP/1.1 200 OK\r\n\r\n'));
  };
  const servers = {
    http: () => createServer().on('connect', tunnel),
    https: () => createSecureServer({ cert: certificate, key }).on('connect', tunnel),
    socks5: () => createTcpServer((client) => void socks(client, lead)),
  };
  const server: Server = servers[scheme]();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return { port: (server.address() as AddressInfo).port, targets, authorizations };
}

/** RFC 1928: no authentication, CONNECT to an IPv4 address or a name. */
async function socks(
  client: Socket,
  lead: (client: Duplex, host: string, port: number, ready: () => void) => void,
): Promise<void> {
  await once(client, 'data');
  client.write(Uint8Array.of(5, 0));
  const [asked] = (await once(client, 'data')) as [Buffer];
  const isName = asked[3] === 3;
  const host = isName
    ? asked.subarray(5, 5 + asked[4]!).toString()
    : [...asked.subarray(4, 8)].join('.');
  const port = asked.readUInt16BE(asked.length - 2);
  lead(client, host, port, () => client.write(Uint8Array.of(5, 0, 0, 1, 0, 0, 0, 0, 0, 0)));
}

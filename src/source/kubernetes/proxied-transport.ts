/** Requests through an HTTP or SOCKS proxy, by undici. */
import { ProxyAgent } from 'undici';
import type { TlsOptions, Transport } from './transport.ts';

export function openProxied(server: URL, proxy: URL, tls: TlsOptions): Transport {
  const { href: uri, protocol } = proxy;
  // A proxy that speaks TLS is verified as the server is, as in Go's net/http. undici would also
  // speak TLS to a SOCKS proxy that has such options.
  const { secureContext, rejectUnauthorized } = tls;
  const options = protocol === 'https:' ? { proxyTls: { secureContext, rejectUnauthorized } } : {};
  const agent = new ProxyAgent({ uri, requestTls: tls, ...options, allowH2: false });
  const { origin } = server;
  return {
    request: ({ body, ...request }) =>
      agent.request({
        origin,
        ...request,
        ...(body === undefined ? {} : { body }),
        headersTimeout: 0,
        bodyTimeout: 0,
      }),
    retire: () => agent.close().catch(() => {}),
    destroy: () => void agent.destroy().catch(() => {}),
  };
}

/** Which proxy leads to a server, as golang.org/x/net/http/httpproxy answers. */
import { describe, expect, it } from 'vitest';
import { proxyOfEnvironment } from '../../../../src/source/kubernetes/http-proxy.ts';

const proxies = { HTTP_PROXY: 'plain:3128', HTTPS_PROXY: 'https://secure:3129' };

function proxyOf(server: string, environment: Record<string, string>): string | undefined {
  return proxyOfEnvironment(new URL(server), environment)?.href;
}

describe('the proxy of the environment', () => {
  it('is selected by the scheme of the server', () => {
    expect(proxyOf('http://api.example', proxies)).toBe('http://plain:3128/');
    expect(proxyOf('https://api.example', proxies)).toBe('https://secure:3129/');
    expect(proxyOf('https://api.example', { HTTP_PROXY: 'plain:3128' })).toBeUndefined();
    expect(proxyOf('https://api.example', {})).toBeUndefined();
  });

  it('may be set in lower case, which has lower precedence', () => {
    expect(proxyOf('https://api.example', { https_proxy: 'a:1', HTTPS_PROXY: '' })).toBe(
      'http://a:1/',
    );
    expect(proxyOf('https://api.example', { https_proxy: 'a:1', HTTPS_PROXY: 'b:2' })).toBe(
      'http://b:2/',
    );
    expect(proxyOf('https://api.example', { https_proxy: 'a:1', no_proxy: 'example' })).toBe(
      undefined,
    );
  });

  it.each([
    ['https://localhost:6443', ''],
    ['https://127.1.2.3:6443', ''],
    ['https://[::1]:6443', ''],
    ['https://api.example', '*'],
    ['https://api.example', 'other, *'],
    ['https://10.96.0.1', '10.96.0.0/12'],
    ['https://10.96.0.1', ' 10.96.0.1 '],
    ['https://10.96.0.1', '10.96.0.1:443'],
    ['https://[fd00::1]:6443', 'fd00::/8'],
    ['https://[fd00::1]:6443', 'fd00::1'],
    ['https://[fd00::1]:6443', '[fd00::1]:6443'],
    ['https://api.example', 'example'],
    ['https://api.example', '.example'],
    ['https://api.example', '*.example'],
    ['https://API.example', 'x,Api.Example'],
    ['https://api.example', 'api.example:443'],
    ['https://xn--bcher-kva.example', 'b\u00fccher.example'],
  ])('is not used for %s with NO_PROXY=%s', (server, noProxy) => {
    expect(proxyOf(server, { ...proxies, NO_PROXY: noProxy })).toBeUndefined();
  });

  it.each([
    ['https://api.example', ''],
    ['https://api.example', ',,:443,'],
    ['https://10.96.0.1', '10.0.0.0/16'],
    ['https://10.96.0.1:6443', '10.96.0.1:443'],
    ['https://[fd00::1]:6443', '[fd00::1]:443'],
    ['https://api.example:6443', 'api.example:443'],
    ['https://example', '.example'],
    ['https://example', '*.example'],
    ['https://badexample', 'example'],
    ['https://localhost.example', 'localhost'],
  ])('is used for %s with NO_PROXY=%s', (server, noProxy) => {
    expect(proxyOf(server, { ...proxies, NO_PROXY: noProxy })).toBe('https://secure:3129/');
  });

  it('is reported by its variable if invalid, and without its password', () => {
    const refused = (HTTPS_PROXY: string) => () => proxyOf('https://api.example', { HTTPS_PROXY });
    expect(refused('ftp://user:pass@proxy')).toThrow(
      /^environment variable HTTPS_PROXY: unsupported scheme "ftp", must be http, https, or socks5$/,
    );
    expect(refused('http://')).toThrow(/^environment variable HTTPS_PROXY: is not a URL$/);
  });
});

/**
 * Finds the HTTP proxy for the API server, by the rules of client-go: `proxy-url` of the
 * kubeconfig, else the environment as Go's net/http reads it (golang.org/x/net/http/httpproxy).
 */
import { isIP } from 'node:net';
import { domainToASCII } from 'node:url';
import {
  type Address,
  cidrContains,
  isLoopback,
  parseAddress,
  parseCIDR,
} from '../../net/address.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

const schemes: ReadonlySet<string> = new Set(['http:', 'https:', 'socks5:']);

/**
 * The proxy of `proxy-url`. Throws a one-line Error, without the URL's password, if it is invalid.
 */
export function parseProxyURL(text: string): URL {
  const url = URL.parse(text);
  if (url === null || url.host === '') throw new Error('is not a URL');
  if (!schemes.has(url.protocol)) {
    const scheme = JSON.stringify(url.protocol.slice(0, -1));
    throw new Error(`unsupported scheme ${scheme}, must be http, https, or socks5`);
  }
  return url;
}

/**
 * The proxy from the environment for requests to `server`; undefined = none. Throws a one-line
 * Error that names the variable if it is invalid.
 */
export function proxyOfEnvironment(server: URL, environment: Environment): URL | undefined {
  const name = server.protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY';
  const text = either(environment, name);
  if (text === '' || isDirect(server, either(environment, 'NO_PROXY'))) return undefined;
  try {
    // A value without a scheme is `host:port`.
    return parseProxyURL(text.includes('://') ? text : `http://${text}`);
  } catch (error) {
    throw new Error(`environment variable ${name}: ${(error as Error).message}`);
  }
}

/** The text for a proxy: its URL without user and password. */
export function proxyText({ protocol, host }: URL): string {
  return `${protocol}//${host}`;
}

function either(environment: Environment, name: string): string {
  return environment[name] || environment[name.toLowerCase()] || '';
}

/** Whether requests to `server` are sent without a proxy. */
function isDirect(server: URL, noProxy: string): boolean {
  const host = server.hostname.replace(/^\[(.*)\]$/, '$1');
  const port = server.port || (server.protocol === 'https:' ? '443' : '80');
  const address = parseAddress(host);
  if (host === 'localhost' || (address !== undefined && isLoopback(address))) return true;
  const entries = noProxy.split(',').map((entry) => entry.trim().toLowerCase());
  return entries.some((entry) => entry === '*' || covers(entry, { host, port, address }));
}

interface Target {
  readonly host: string;
  readonly port: string;
  /** Undefined = the host is a name. */
  readonly address: Address | undefined;
}

/**
 * Whether an entry of NO_PROXY matches `target`. It is a block, an address or a domain; the last
 * two may have a port.
 */
function covers(entry: string, target: Target): boolean {
  const block = parseCIDR(entry);
  if (block !== undefined)
    return target.address !== undefined && cidrContains(block, target.address);
  const { host, port } = splitPort(entry);
  if (host === '' || (port !== '' && port !== target.port)) return false;
  const address = parseAddress(host);
  if (address !== undefined) {
    return target.address !== undefined && address.key === target.address.key;
  }
  const pattern = host.startsWith('*.') ? host.slice(1) : host;
  const isSubdomainsOnly = pattern.startsWith('.');
  const name = isSubdomainsOnly ? pattern.slice(1) : pattern;
  const domain = /[\u0080-\uffff]/.test(name) ? domainToASCII(name) || name : name;
  return target.host.endsWith(`.${domain}`) || (!isSubdomainsOnly && target.host === domain);
}

/** The port is empty if absent. An IPv6 address has a port only in brackets. */
function splitPort(entry: string): { readonly host: string; readonly port: string } {
  const parts = /^(?:\[([^\]]*)\]|([^:]*)):(\d*)$/.exec(entry);
  if (isIP(entry) !== 0 || parts === null) return { host: entry, port: '' };
  return { host: parts[1] ?? parts[2] ?? '', port: parts[3] ?? '' };
}

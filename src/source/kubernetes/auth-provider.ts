import type { RawObject } from '../decode/field-reader.ts';
import type { PluginOutput } from './exec-plugin.ts';

/** Lets client-node run the legacy `auth-provider` part of a user, and caches its result. */
export async function loadAuthProvider(user: RawObject): Promise<() => Promise<PluginOutput>> {
  const { KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  const name = 'plugin';
  config.loadFromOptions({
    // No request is sent to this server, but KubeConfig needs one.
    clusters: [{ name, server: 'https://plugin.invalid', skipTLSVerify: false }],
    users: [{ name, authProvider: user['auth-provider'] }],
    contexts: [{ name, cluster: name, user: name }],
    currentContext: name,
  });
  return async () => {
    const options: Parameters<typeof config.applyToHTTPSOptions>[0] = {};
    await config.applyToHTTPSOptions(options);
    const headers = new Map(
      Object.entries(options.headers ?? {}).map(([key, value]) => [key.toLowerCase(), value]),
    );
    const authorization = headers.get('authorization');
    return {
      authorization: authorization === undefined ? undefined : String(authorization),
      certificate: bytesOf(options.cert),
      key: bytesOf(options.key),
    };
  };
}

function bytesOf(value: unknown): Buffer | undefined {
  if (typeof value === 'string') return Buffer.from(value);
  return Buffer.isBuffer(value) ? value : undefined;
}

import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext, type SecureContext } from 'node:tls';
import { type ClusterAccess, describeFileError, type Material } from './kubeconfig.ts';

/** What one request shows the server. */
export interface Credentials {
  /** The same object as long as nothing in it changed. */
  readonly secureContext: SecureContext;
  readonly headers: Readonly<Record<string, string>>;
}

interface TlsMaterial {
  readonly ca: Buffer | undefined;
  readonly certificate: Buffer | undefined;
  readonly key: Buffer | undefined;
}

interface PluginOutput {
  readonly authorization: string | undefined;
  readonly certificate: Buffer | undefined;
  readonly key: Buffer | undefined;
}

type Plugin = () => Promise<PluginOutput>;

/**
 * Reads certificates and tokens anew for each request: requests are rare (a watch lasts minutes),
 * the files are small, and so whatever rotates them needs to tell nobody.
 */
export class CredentialReader {
  readonly #access: ClusterAccess;
  #material: TlsMaterial | undefined;
  #secureContext: SecureContext | undefined;
  #plugin: Plugin | undefined;

  constructor(access: ClusterAccess) {
    this.#access = access;
  }

  /** Rejects with an Error of one line that names the file, or the plugin, and the reason. */
  async read(): Promise<Credentials> {
    const { origin, ca, certificate, key, token, basic, impersonate } = this.#access;
    const plugged = await this.#runPlugin();
    const material = {
      ca: await this.#bytes(ca),
      certificate: plugged?.certificate ?? (await this.#bytes(certificate)),
      key: plugged?.key ?? (await this.#bytes(key)),
    };
    const headers: Record<string, string> = {};
    const bearer = (await this.#bytes(token))?.toString('utf8').trim();
    if (bearer === '') throw new Error(`${origin}: the token is empty`);
    if (bearer !== undefined) headers.authorization = `Bearer ${bearer}`;
    else if (plugged?.authorization !== undefined) headers.authorization = plugged.authorization;
    else if (basic !== undefined) headers.authorization = basicAuthorization(basic);
    if (impersonate !== undefined) headers['impersonate-user'] = impersonate;
    return { secureContext: this.#context(material), headers };
  }

  /** The server refused what we showed: what a plugin said is asked again. */
  invalidate(): void {
    this.#plugin = undefined;
  }

  async #bytes(material: Material | undefined): Promise<Buffer | undefined> {
    if (material === undefined) return undefined;
    if ('data' in material) return material.data;
    try {
      return await readFile(material.file);
    } catch (error) {
      throw new Error(`${this.#access.origin}: ${material.file} ${describeFileError(error)}`);
    }
  }

  #context(material: TlsMaterial): SecureContext {
    const before = this.#material;
    const same =
      before !== undefined &&
      sameBytes(before.ca, material.ca) &&
      sameBytes(before.certificate, material.certificate) &&
      sameBytes(before.key, material.key);
    if (same && this.#secureContext !== undefined) return this.#secureContext;
    try {
      // createSecureContext takes an authority that is no certificate for no authority.
      if (material.ca !== undefined) new X509Certificate(material.ca);
      this.#secureContext = createSecureContext({
        ca: material.ca,
        cert: material.certificate,
        key: material.key,
      });
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const parts = Object.entries(material).filter(([, bytes]) => bytes !== undefined);
      const names = parts.map(([name]) => name).join(', ');
      throw new Error(`${this.#access.origin}: unusable certificates (${names}): ${reason}`);
    }
    this.#material = material;
    return this.#secureContext;
  }

  async #runPlugin(): Promise<PluginOutput | undefined> {
    if (this.#access.plugin === undefined) return undefined;
    try {
      this.#plugin ??= await loadPlugin(this.#access.plugin);
      return await this.#plugin();
    } catch (error) {
      const words = error instanceof Error ? error.message : String(error);
      const [line = ''] = words.trim().split('\n');
      throw new Error(`${this.#access.origin}: the credential plugin failed: ${line}`);
    }
  }
}

/** Exec plugins and auth-providers are client-node's to run; it keeps what they say until it expires. */
async function loadPlugin(user: Readonly<Record<string, unknown>>): Promise<Plugin> {
  const { KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  const name = 'plugin';
  config.loadFromOptions({
    // The server is not asked; KubeConfig refuses to work without one.
    clusters: [{ name, server: 'https://plugin.invalid', skipTLSVerify: false }],
    users: [{ name, exec: user.exec, authProvider: user['auth-provider'] }],
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

function basicAuthorization({ username, password }: { username: string; password: string }) {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
}

function sameBytes(a: Buffer | undefined, b: Buffer | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.equals(b);
}

import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { sameBytes } from '../../net/bytes.ts';
import { equality } from '../../net/equality.ts';
import { describeFileError } from '../file-error.ts';
import { ExecPlugin, type PluginEvent, type PluginOutput } from './exec-plugin.ts';
import type { ClusterAccess, Material } from './kubeconfig.ts';

/** The credentials of one request. */
interface Credentials {
  /** It is the same object until one of its values changes. */
  readonly secureContext: SecureContext;
  readonly headers: Readonly<Record<string, string>>;
}

interface TlsMaterial {
  readonly ca: Buffer | undefined;
  readonly certificate: Buffer | undefined;
  readonly key: Buffer | undefined;
}

const sameMaterial = equality<TlsMaterial>({
  ca: sameBytes,
  certificate: sameBytes,
  key: sameBytes,
});

/**
 * Reads certificates and tokens again for each request, because they may be rotated. Requests are
 * rare (a watch lasts minutes), and the files are small.
 */
export class CredentialReader {
  readonly #access: ClusterAccess;
  #material: TlsMaterial | undefined;
  #secureContext: SecureContext | undefined;
  readonly #plugin: ExecPlugin | undefined;

  /**
   * A plugin that runs longer than `pluginTimeoutMs` is killed. Throws a one-line Error if the
   * plugin can never run.
   */
  constructor(
    access: ClusterAccess,
    pluginTimeoutMs: number,
    observer?: (event: PluginEvent) => void,
  ) {
    this.#access = access;
    try {
      this.#plugin = access.plugin && new ExecPlugin(access.plugin, pluginTimeoutMs, observer);
    } catch (error) {
      throw new Error(`${access.origin}: exec: ${(error as Error).message}`);
    }
  }

  /** Rejects with a one-line Error if a file is missing or invalid. */
  async checkFiles(): Promise<void> {
    await this.#assemble(undefined);
  }

  /** Rejects with a one-line Error that names the file or the plugin, and the reason. */
  async read(): Promise<Credentials> {
    return this.#assemble(await this.#runPlugin());
  }

  /** Kills a running plugin. */
  close(): void {
    this.#plugin?.close();
  }

  async #assemble(plugged: PluginOutput | undefined): Promise<Credentials> {
    const { origin, ca, certificate, key, token, basic } = this.#access;
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
    return { secureContext: this.#context(material), headers };
  }

  /** The server refused the credentials: the plugin runs again for the next request. */
  invalidate(): void {
    this.#plugin?.invalidate();
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
    const isSame = sameMaterial(this.#material, material);
    if (isSame && this.#secureContext !== undefined) return this.#secureContext;
    try {
      // createSecureContext ignores an authority that is not a certificate.
      if (material.ca !== undefined) new X509Certificate(material.ca);
      this.#secureContext = createSecureContext({
        ca: material.ca ?? this.#authorities(),
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

  /**
   * What Node trusts, for a kubeconfig without authorities: the launcher's `--use-openssl-ca` keeps
   * Node from holding all of it in every process, half a megabyte. None where nothing is verified:
   * without a list, OpenSSL would read those of the machine, 1.6 MB.
   */
  #authorities(): string[] {
    if (this.#access.verification !== 'verify') return [];
    return [...new Set([...getCACertificates('bundled'), ...getCACertificates('default')])];
  }

  async #runPlugin(): Promise<PluginOutput | undefined> {
    try {
      return await this.#plugin?.read();
    } catch (error) {
      const words = error instanceof Error ? error.message : String(error);
      const [line = ''] = words.trim().split('\n');
      throw new Error(`${this.#access.origin}: the credential plugin failed: ${line}`);
    }
  }
}

function basicAuthorization({ username, password }: { username: string; password: string }) {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
}

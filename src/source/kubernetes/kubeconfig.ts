/**
 * Access to one API server: from a kubeconfig, from the pod of this process, or from `--master`
 * alone. It names files, which `credentials.ts` reads for each request.
 *
 * This is our own code because @kubernetes/client-node's KubeConfig costs 0.9 s and 85 MB to load,
 * and does not know `tokenFile`, which kubeadm's kube-proxy uses.
 */
import { readFileSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { joinHostPort } from '../../net/address.ts';
import { FieldReader, isRawObject, type RawObject } from '../decode/field-reader.ts';
import { describeFileError } from '../file-error.ts';
import { ManifestError, parseManifest } from '../manifests/parse.ts';
import { type Environment, parseProxyURL, proxyOfEnvironment } from './http-proxy.ts';

/** Bytes in the kubeconfig, or a file that contains them and may change. */
export type Material = { readonly data: Buffer } | { readonly file: string };

export interface ClusterAccess {
  /** The file that was read, for messages: `kubeconfig /etc/x.conf`. */
  readonly origin: string;
  /** Without a trailing path. */
  readonly server: URL;
  /** Undefined = the server's host name. */
  readonly tlsServerName: string | undefined;
  readonly verification: 'verify' | 'insecure';
  /** Whether the server may compress its answers. */
  readonly compression: 'gzip' | 'none';
  /** The proxy for requests; undefined = none. */
  readonly proxy: URL | undefined;
  readonly ca: Material | undefined;
  readonly certificate: Material | undefined;
  readonly key: Material | undefined;
  readonly token: Material | undefined;
  readonly basic: { readonly username: string; readonly password: string } | undefined;
  /** The `exec` part of the user. */
  readonly plugin: RawObject | undefined;
}

export interface AccessOptions {
  /** If empty, and `masterUrl` too: in-cluster configuration. */
  readonly kubeconfigPath: string;
  /** Overrides the server of the kubeconfig; empty = does not. */
  readonly masterUrl: string;
  /** Default: where Kubernetes mounts the service account. */
  readonly serviceAccountDirectory?: string;
  /** Default: the environment of the process. */
  readonly environment?: Environment;
}

/** Throws a one-line Error that names the file and the reason. */
export function readAccess(options: AccessOptions): ClusterAccess {
  const access = readWithoutEnvironment(options);
  if (access.proxy !== undefined) return access;
  const proxy = proxyOfEnvironment(access.server, options.environment ?? process.env);
  return { ...access, proxy };
}

function readWithoutEnvironment(options: AccessOptions): ClusterAccess {
  const { kubeconfigPath, masterUrl } = options;
  if (kubeconfigPath !== '') return fromKubeconfig(kubeconfigPath, masterUrl);
  if (masterUrl !== '')
    return { ...anonymous('--master'), server: parseServer('--master', masterUrl) };
  return fromPod(options);
}

function anonymous(origin: string): Omit<ClusterAccess, 'server'> {
  return {
    origin,
    tlsServerName: undefined,
    verification: 'verify',
    compression: 'gzip',
    proxy: undefined,
    ca: undefined,
    certificate: undefined,
    key: undefined,
    token: undefined,
    basic: undefined,
    plugin: undefined,
  };
}

function fromPod({
  environment = process.env,
  serviceAccountDirectory = '/var/run/secrets/kubernetes.io/serviceaccount',
}: AccessOptions): ClusterAccess {
  const origin = 'in-cluster configuration';
  const host = environment.KUBERNETES_SERVICE_HOST ?? '';
  const port = environment.KUBERNETES_SERVICE_PORT ?? '';
  if (host === '' || port === '') {
    const missing = host === '' ? 'KUBERNETES_SERVICE_HOST' : 'KUBERNETES_SERVICE_PORT';
    const help = 'outside of a pod give --kubeconfig or --master';
    throw new Error(`${origin}: ${missing} is not set; ${help}`);
  }
  return {
    ...anonymous(origin),
    server: parseServer(origin, `https://${joinHostPort(host, port)}`),
    ca: { file: join(serviceAccountDirectory, 'ca.crt') },
    token: { file: join(serviceAccountDirectory, 'token') },
  };
}

/** A server without scheme is plain HTTP, as in client-go. */
function parseServer(origin: string, text: string): URL {
  const url = URL.parse(text.includes('://') ? text : `http://${text}`);
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:')) {
    throw new Error(
      `${origin}: the server ${JSON.stringify(text)} is not an http or https address`,
    );
  }
  return url;
}

function fromKubeconfig(path: string, masterUrl: string): ClusterAccess {
  const origin = `kubeconfig ${path}`;
  const fields = new FieldReader(origin);
  const config = parseKubeconfig(path);
  const context = currentContext(fields, config);
  const cluster = named(
    fields,
    config.clusters,
    'cluster',
    fields.text(context.cluster, 'cluster'),
  );
  const userName = fields.text(context.user, 'user') ?? '';
  const user = userName === '' ? {} : named(fields, config.users, 'user', userName);
  const server =
    masterUrl !== '' ? masterUrl : (fields.text(cluster.server, 'cluster.server') ?? '');
  if (server === '') fields.refuse('cluster.server', 'is missing');
  const access = { ...readCluster(fields, cluster, path), ...readUser(fields, user, path) };
  const [problem] = fields.problems;
  if (problem !== undefined) throw new Error(`${origin}: ${problem.field} ${problem.reason}`);
  const url = parseServer(origin, server);
  if (url.protocol === 'https:' && access.verification === 'insecure' && access.ca !== undefined) {
    // The words of client-go (transport.TLSConfigFor).
    const reason = 'specifying a root certificates file with the insecure flag is not allowed';
    throw new Error(`${origin}: insecure-skip-tls-verify: ${reason}`);
  }
  return { origin, server: url, ...access };
}

/** Its first document, as client-go reads it. */
function parseKubeconfig(path: string): RawObject {
  const [document] = parseManifest('', readBytes(path));
  if (document instanceof ManifestError) {
    throw new Error(`kubeconfig ${path}:${document.line}: ${document.message}`);
  }
  const config = document?.value;
  if (!isRawObject(config)) throw new Error(`kubeconfig ${path}: is not a kubeconfig`);
  return config;
}

function readBytes(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new Error(`kubeconfig ${path}: ${describeFileError(error)}`);
  }
}

function currentContext(fields: FieldReader, config: RawObject): RawObject {
  const name = fields.text(config['current-context'], 'current-context') ?? '';
  if (name === '') throw new Error(`${fields.subject}: current-context is not set`);
  return named(fields, config.contexts, 'context', name);
}

/** The entry of this name in a list of `{name, <kind>: {…}}`. Throws if there is none. */
function named(
  fields: FieldReader,
  list: unknown,
  kind: string,
  name: string | undefined,
): RawObject {
  for (const entry of fields.list(list, `${kind}s`)) {
    if (!isRawObject(entry) || entry.name !== name) continue;
    return fields.object(entry[kind], `${kind}s[${name}].${kind}`) ?? {};
  }
  throw new Error(`${fields.subject}: there is no ${kind} ${JSON.stringify(name ?? '')}`);
}

function readCluster(fields: FieldReader, cluster: RawObject, path: string) {
  const insecure = fields.flag(cluster['insecure-skip-tls-verify'], 'insecure-skip-tls-verify');
  const isPlain = fields.flag(cluster['disable-compression'], 'disable-compression');
  return {
    tlsServerName: fields.text(cluster['tls-server-name'], 'tls-server-name') || undefined,
    verification: insecure === true ? ('insecure' as const) : ('verify' as const),
    compression: isPlain === true ? ('none' as const) : ('gzip' as const),
    proxy: readProxy(fields, fields.text(cluster['proxy-url'], 'proxy-url') ?? ''),
    ca: material(fields, cluster, 'certificate-authority', path),
  };
}

function readProxy(fields: FieldReader, text: string): URL | undefined {
  if (text === '') return undefined;
  try {
    return parseProxyURL(text);
  } catch (error) {
    return fields.refuse('proxy-url', (error as Error).message);
  }
}

function readUser(fields: FieldReader, user: RawObject, path: string) {
  const tokenFile = fields.text(user.tokenFile, 'tokenFile') || undefined;
  const token = fields.text(user.token, 'token') || undefined;
  const username = fields.text(user.username, 'username') || undefined;
  const inline = token === undefined ? undefined : { data: Buffer.from(token) };
  const exec = fields.object(user.exec, 'exec');
  const provider = fields.object(user['auth-provider'], 'auth-provider');
  if (provider !== undefined) {
    // The words of client-go (rest.GetAuthProvider) in kube-proxy, which registers no provider.
    const name = JSON.stringify(fields.text(provider.name, 'auth-provider.name') ?? '');
    fields.refuse('auth-provider', `cannot be used: no Auth Provider found for name ${name}`);
  }
  const isEmpty = (value: unknown) => ['null', '""', '[]', '{}'].includes(JSON.stringify(value));
  const impersonating = Object.keys(user).find((field) => {
    return /^as(-|$)/.test(field) && !isEmpty(user[field]);
  });
  if (impersonating !== undefined) {
    fields.refuse(impersonating, 'cannot be used: a proxy has a user of its own');
  }
  return {
    certificate: material(fields, user, 'client-certificate', path),
    key: material(fields, user, 'client-key', path),
    // The file precedes the token, as in client-go, because it is rotated.
    token: tokenFile === undefined ? inline : { file: absolute(path, tokenFile) },
    basic:
      username === undefined
        ? undefined
        : { username, password: fields.text(user.password, 'password') ?? '' },
    plugin: exec && withAbsoluteCommand(exec, path),
  };
}

/** `<field>-data` precedes `<field>`; files are relative to the kubeconfig. */
function material(
  fields: FieldReader,
  raw: RawObject,
  field: string,
  path: string,
): Material | undefined {
  const data = fields.text(raw[`${field}-data`], `${field}-data`) || undefined;
  if (data !== undefined) return { data: Buffer.from(data, 'base64') };
  const file = fields.text(raw[field], field) || undefined;
  return file === undefined ? undefined : { file: absolute(path, file) };
}

/**
 * Makes the command of an exec plugin absolute: with a folder, it is relative to the kubeconfig.
 */
function withAbsoluteCommand(exec: RawObject, path: string): RawObject {
  const { command } = exec;
  if (typeof command !== 'string' || !command.includes('/')) return exec;
  return { ...exec, command: absolute(path, command) };
}

function absolute(kubeconfigPath: string, file: string): string {
  return isAbsolute(file) ? file : join(dirname(kubeconfigPath), file);
}

import { chmodSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ApiClient, type ClientEvent } from '../../../../src/source/kubernetes/client.ts';
import { readAccess } from '../../../../src/source/kubernetes/kubeconfig.ts';
import { resources } from '../../../../src/state/change.ts';
import { createAuthority } from '../../../fake/api-server-certificate.ts';
import { until } from '../../until.ts';
import { startProxy } from './proxy.ts';
import { change, startCluster, startServer, startSource, temporaryDirectory } from './setup.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');

/** JSON is YAML. */
function kubeconfig(server: string, cluster: object, user: object, rest: object = {}): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'main',
    contexts: [{ name: 'main', context: { cluster: 'fake', user: 'proxy' } }],
    clusters: [{ name: 'fake', cluster: { server, ...cluster } }],
    users: [{ name: 'proxy', user }],
    ...rest,
  });
}

/** A source that uses this kubeconfig, with these files in the same folder. */
function startWith(
  server: Parameters<typeof startSource>[0],
  config: string,
  files: Readonly<Record<string, string>> = {},
  options: object = {},
) {
  const directory = temporaryDirectory({ ...files, config });
  const kubeconfigPath = join(directory, 'config');
  return { directory, ...startSource(server, { kubeconfigPath, masterUrl: '', ...options }) };
}

const authority = createAuthority();
const serverCertificate = authority.issue('fake', ['127.0.0.1', 'localhost', 'api.example']);

describe('access to the API server', () => {
  it('uses TLS with a server of the configured authority', async () => {
    const server = await startCluster(3, { tls: serverCertificate });
    const ca = { 'certificate-authority-data': base64(authority.certificate) };
    const { converged, sink } = startWith(server, kubeconfig(server.url, ca, {}));
    await converged();
    expect(sink.problems).toEqual([]);
  });

  it('rejects a server of another authority, and reports it', async () => {
    const server = await startServer({ tls: serverCertificate });
    const other = createAuthority('another authority').certificate;
    const ca = { 'certificate-authority-data': base64(other) };
    const { sink } = startWith(server, kubeconfig(server.url, ca, {}));
    const reason = /its certificate is not signed by the configured authority/;
    await until('said', () => sink.said().some((text) => reason.test(text)));
    expect(server.counts.size).toBe(0);
  });

  it('skips verification only if configured', async () => {
    const server = await startCluster(3, { tls: serverCertificate });
    const insecure = { 'insecure-skip-tls-verify': true };
    await startWith(server, kubeconfig(server.url, insecure, {})).converged();
  });

  it('verifies the name in tls-server-name', async () => {
    const server = await startCluster(3, { tls: serverCertificate });
    const ca = { 'certificate-authority-data': base64(authority.certificate) };
    const right = kubeconfig(server.url, { ...ca, 'tls-server-name': 'api.example' }, {});
    await startWith(server, right).converged();
    const wrong = kubeconfig(server.url, { ...ca, 'tls-server-name': 'db.example' }, {});
    const { sink } = startWith(server, wrong);
    await until('said', () => sink.said().some((text) => /db\.example/.test(text)));
    expect(sink.syncedResources).toEqual([]);
  });

  it('sends its client certificate, and a renewed one once the files change', async () => {
    const tls = { ...serverCertificate, ca: authority.certificate };
    const server = await startCluster(3, { tls });
    const client = authority.issue('system:kube-proxy');
    const user = { 'client-certificate': 'client.crt', 'client-key': 'client.key' };
    const config = kubeconfig(server.url, { 'certificate-authority': 'ca.crt' }, user);
    const { directory, converged, sink } = startWith(server, config, {
      'ca.crt': authority.certificate,
      'client.crt': client.certificate,
      'client.key': client.key,
    });
    await converged();
    const replace = ({ certificate, key }: typeof client): void => {
      writeFileSync(join(directory, 'client.crt'), certificate);
      writeFileSync(join(directory, 'client.key'), key);
    };
    replace(createAuthority('unknown').issue('nobody'));
    for (const resource of resources) server.disturb(resource, 'drop');
    await until('refused', () => sink.problems.length > 0);
    replace(authority.issue('system:kube-proxy'));
    change(server, 1);
    await converged();
  });

  it('uses the service account of its own pod', async () => {
    const server = await startCluster(3, { tls: serverCertificate });
    server.token = 'pod-token';
    const directory = temporaryDirectory({ 'ca.crt': authority.certificate, token: 'pod-token\n' });
    const { converged } = startSource(server, {
      masterUrl: '',
      serviceAccountDirectory: directory,
      environment: {
        KUBERNETES_SERVICE_HOST: '127.0.0.1',
        KUBERNETES_SERVICE_PORT: String(server.port),
      },
    });
    await converged();
  });

  it.each([
    ['a token', { token: 'secret' }, 'Bearer secret'],
    ['a password', { username: 'ann', password: 'x' }, `Basic ${base64('ann:x')}`],
    ['a token before a password', { token: 't', username: 'ann' }, 'Bearer t'],
    ['a token file before a token', { token: 't', tokenFile: 'token' }, 'Bearer from-file'],
  ])('authenticates by %s', async (_what, user, authorization) => {
    const server = await startCluster(1);
    const config = kubeconfig(server.url, {}, user);
    await startWith(server, config, { token: 'from-file\n' }).converged();
    expect(server.lastHeaders.authorization).toBe(authorization);
  });

  it('runs an exec plugin, and runs it again when its token is rejected', async () => {
    const server = await startCluster(2);
    server.token = 'one';
    const config = kubeconfig(
      server.url,
      {},
      {
        exec: { apiVersion: 'client.authentication.k8s.io/v1', command: './plugin', args: ['x'] },
      },
    );
    const credential = { apiVersion: 'client.authentication.k8s.io/v1', kind: 'ExecCredential' };
    const script = (token: string) =>
      `#!/bin/sh\necho '${JSON.stringify({ ...credential, status: { token } })}'\n`;
    const directory = temporaryDirectory({ config, plugin: script('one') });
    chmodSync(join(directory, 'plugin'), 0o755);
    const options = { kubeconfigPath: join(directory, 'config'), masterUrl: '' };
    const { converged } = startSource(server, options);
    await converged();
    server.token = 'two';
    writeFileSync(join(directory, 'plugin'), script('two'));
    for (const resource of resources) server.disturb(resource, 'drop');
    change(server, 1);
    await converged();
    // Another watch may just have tried the old one.
    await until('Bearer two', () => server.lastHeaders.authorization === 'Bearer two');
  });

  it.each(['http', 'https', 'socks5'] as const)(
    'uses the proxy of proxy-url by %s',
    async (scheme) => {
      const server = await startCluster(3, { tls: serverCertificate });
      const proxy = await startProxy(scheme, serverCertificate);
      const config = kubeconfig(
        server.url,
        {
          'certificate-authority-data': base64(authority.certificate),
          'proxy-url': `${scheme}://127.0.0.1:${proxy.port}`,
        },
        {},
      );
      await startWith(server, config).converged();
      expect(proxy.targets).toEqual(new Set([`127.0.0.1:${server.port}`]));
    },
  );

  it('uses the proxy of the environment, with its password', async () => {
    const server = await startCluster(3, { tls: serverCertificate });
    const proxy = await startProxy('http', serverCertificate);
    const ca = { 'certificate-authority-data': base64(authority.certificate) };
    const config = kubeconfig(`https://api.example:${server.port}`, ca, {});
    const environment = { HTTPS_PROXY: `user:pass@127.0.0.1:${proxy.port}` };
    await startWith(server, config, {}, { environment }).converged();
    expect(proxy.targets).toEqual(new Set([`api.example:${server.port}`]));
    expect(proxy.authorizations).toEqual(new Set([`Basic ${base64('user:pass')}`]));
  });

  it('names an unreachable proxy, without its password', async () => {
    const server = await startServer();
    const { sink } = startSource(server, {
      masterUrl: 'https://api.example:6443',
      environment: { https_proxy: 'http://user:pass@127.0.0.1:1' },
    });
    const reason =
      'cannot reach https://api.example:6443 through the proxy http://127.0.0.1:1: connection refused (ECONNREFUSED)';
    await until('said', () => sink.said().includes(`services watch: ${reason}`));
  });

  it("keeps the path of the server's URL", async () => {
    const server = await startCluster(2);
    const paths: string[] = [];
    const front = createServer((request, response) => {
      paths.push(request.url ?? '');
      response.writeHead(404).end();
    });
    await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void front.close());
    const { port } = front.address() as AddressInfo;
    const { sink } = startSource(server, { masterUrl: `127.0.0.1:${port}/clusters/a/` });
    await until('refused', () => sink.problems.length > 2);
    expect(paths.every((path) => /^\/clusters\/a\/(api|version)/.test(path))).toBe(true);
  });

  it('uses --master instead of the server of the kubeconfig', async () => {
    const server = await startCluster(2);
    const config = kubeconfig('https://127.0.0.1:1', {}, {});
    await startWith(server, config, {}, { masterUrl: server.url }).converged();
  });

  it('waits for an unreachable server at the start, and reports why', async () => {
    const server = await startCluster(2);
    const { port } = server;
    await server.close();
    const exchanges: ClientEvent[] = [];
    const { converged, sink, source } = startSource(server, {
      observer: (exchange) => exchanges.push(exchange),
    });
    const reason = `cannot reach http://127.0.0.1:${port}: connection refused (ECONNREFUSED)`;
    await until('said for each resource', () => sink.problems.length >= 4);
    expect(sink.said()).toContain(`services watch: ${reason}`);
    expect(sink.problems).toHaveLength(4);
    await until('counting the time', () => {
      const { missingMs = 0, silenceMs = 0 } = source.condition('services');
      return missingMs > 500 && silenceMs > 500;
    });
    expect(source.condition('services').failure).toBe(reason);
    const failed = {
      kind: 'exchange',
      method: 'GET',
      host: `127.0.0.1:${port}`,
      status: undefined,
    };
    expect(exchanges[0]).toMatchObject({ ...failed, durationMs: expect.any(Number) });
    await server.listen(port);
    await converged();
    expect(source.condition('services')).toMatchObject({
      failure: undefined,
      missingMs: undefined,
    });
    // No server has refused a stream, so streams are still tried first.
    expect(server.count('services', 'list')).toBe(0);
  });

  it('waits for a name that cannot be resolved yet', async () => {
    const server = await startServer();
    let attempts = 0;
    const { sink, ended } = startSource(server, {
      masterUrl: 'http://kubernetes.invalid:6443',
      observer: () => {
        attempts += 1;
      },
    });
    const tried = until('several attempts for each resource', () => attempts >= 20);
    await Promise.race([tried, ended.then(() => expect.fail('the source ended'))]);
    expect(sink.said()[0]).toMatch(/cannot reach http:\/\/kubernetes\.invalid:6443: the host name/);
    expect(sink.problems).toHaveLength(4);
  });

  it('survives a missing or empty token file, and uses it when it is back', async () => {
    const server = await startCluster(2);
    server.token = 'secret';
    const config = kubeconfig(server.url, {}, { tokenFile: 'token' });
    const { directory, converged, sink } = startWith(server, config, { token: 'secret\n' });
    await converged();
    const path = join(directory, 'token');
    rmSync(path);
    for (const resource of resources) server.disturb(resource, 'drop');
    const said = (what: RegExp): boolean => sink.said().some((text) => what.test(text));
    await until('gone', () => said(/services watch: .*token does not exist/));
    writeFileSync(path, '');
    await until('empty', () => said(/services watch: .*the token is empty/));
    writeFileSync(path, 'secret\n');
    change(server, 1);
    await converged();
  });

  it('reports each request', async () => {
    const server = await startCluster(2);
    const exchanges: ClientEvent[] = [];
    const fault = { kind: 'status', status: 503 } as const;
    server.fault({ resource: 'services', fault });
    const observer = (event: ClientEvent): unknown => exchanges.push(event);
    await startSource(server, { observer }).converged();
    const statuses = exchanges.flatMap((event) =>
      event.kind === 'exchange' ? `${event.method} ${event.host} ${event.status}` : [],
    );
    const { host } = new URL(server.url);
    expect([...new Set(statuses)].sort()).toEqual([`GET ${host} 200`, `GET ${host} 503`]);
  });

  it('reports the sizes of bodies after decompression, and none of watches', async () => {
    const server = await startCluster(2);
    const events: ClientEvent[] = [];
    const { url } = server;
    const client = await ApiClient.open({
      ...{ kubeconfigPath: '', masterUrl: url, qps: -1, burst: 0, userAgent: 'fairlead/test' },
      observer: (event) => events.push(event),
    });
    onTestFinished(() => client.close());
    const { signal } = new AbortController();
    const text = await readAll(await client.getJSON('/api/v1/services', signal));
    const { host } = new URL(url);
    const method = 'GET';
    const status = 200;
    const durationMs = expect.any(Number);
    const exchange = { kind: 'exchange', method, host, status, durationMs };
    expect(events).toEqual([
      { ...exchange, sentBytes: 0 },
      { kind: 'received', method, host, bytes: Buffer.byteLength(text) },
    ]);
    events.length = 0;
    const watching = new AbortController();
    const query = { watch: 'true', timeoutSeconds: '1' };
    const { body } = await client.get('/api/v1/services', query, watching.signal);
    watching.abort(new Error('seen'));
    await expect(readAll(body)).rejects.toThrow();
    expect(events).toEqual([{ ...exchange, sentBytes: undefined }]);
  });
});

async function readAll(body: AsyncIterable<Buffer>): Promise<string> {
  let text = '';
  for await (const part of body) text += part;
  return text;
}

describe('readAccess', () => {
  const reasonFor = (text: string | undefined) => {
    const directory = temporaryDirectory(text === undefined ? {} : { config: text });
    const path = join(directory, 'config');
    try {
      readAccess({ kubeconfigPath: path, masterUrl: '' });
    } catch (error) {
      return (error as Error).message.replace(path, 'FILE');
    }
    throw new Error('it was accepted');
  };
  const url = 'https://127.0.0.1:6443';

  it('accepts empty fields of impersonation', () => {
    const user = { as: '', 'as-uid': null, 'as-groups': [], 'as-user-extra': {} };
    expect(() => reasonFor(kubeconfig(url, {}, user))).toThrow('it was accepted');
  });

  it.each([
    ['a missing file', undefined, 'kubeconfig FILE: does not exist'],
    ['broken YAML', 'a: 1\nb: [\n', /^kubeconfig FILE:3: /],
    ['an empty file', '', 'kubeconfig FILE: is not a kubeconfig'],
    [
      'no context',
      kubeconfig(url, {}, {}, { 'current-context': '' }),
      'kubeconfig FILE: current-context is not set',
    ],
    [
      'an unknown context',
      kubeconfig(url, {}, {}, { 'current-context': 'x' }),
      'kubeconfig FILE: there is no context "x"',
    ],
    [
      'an unknown context, given by the last of two equal keys',
      'current-context: a\ncurrent-context: x\n',
      'kubeconfig FILE: there is no context "x"',
    ],
    [
      'an unknown cluster',
      kubeconfig(url, {}, {}, { clusters: [] }),
      'kubeconfig FILE: there is no cluster "fake"',
    ],
    [
      'an unknown user',
      kubeconfig(url, {}, {}, { users: null }),
      'kubeconfig FILE: there is no user "proxy"',
    ],
    ['no server', kubeconfig('', {}, {}), 'kubeconfig FILE: cluster.server is missing'],
    [
      'no URL',
      kubeconfig('ftp://x', {}, {}),
      'kubeconfig FILE: the server "ftp://x" is not an http or https address',
    ],
    [
      'an authority that is not to be asked',
      kubeconfig(url, { 'insecure-skip-tls-verify': true, 'certificate-authority': 'ca' }, {}),
      'kubeconfig FILE: insecure-skip-tls-verify: specifying a root certificates file with the insecure flag is not allowed',
    ],
    [
      'an authority in the file that is not to be asked',
      kubeconfig(
        url,
        { 'insecure-skip-tls-verify': true, 'certificate-authority-data': 'eA==' },
        {},
      ),
      'specifying a root certificates file with the insecure flag is not allowed',
    ],
    [
      'a proxy of another kind',
      kubeconfig(url, { 'proxy-url': 'ftp://user:pass@proxy' }, {}),
      'kubeconfig FILE: proxy-url unsupported scheme "ftp", must be http, https, or socks5',
    ],
    [
      'a proxy without a scheme',
      kubeconfig(url, { 'proxy-url': 'proxy:3128' }, {}),
      'kubeconfig FILE: proxy-url is not a URL',
    ],
    [
      'another user to impersonate',
      kubeconfig(url, {}, { as: 'x' }),
      'kubeconfig FILE: as cannot be used: a proxy has a user of its own',
    ],
    [
      'a provider of credentials, of which kube-proxy has none',
      kubeconfig(url, {}, { 'auth-provider': { name: 'oidc', config: {} } }),
      'kubeconfig FILE: auth-provider cannot be used: no Auth Provider found for name "oidc"',
    ],
    [
      'a field of a wrong type',
      kubeconfig(url, {}, { token: 5 }),
      'kubeconfig FILE: token must be a string, is 5',
    ],
  ])('rejects %s in one line', (_what, text, reason) => {
    expect(reasonFor(text)).toMatch(reason);
    expect(reasonFor(text)).not.toContain('\n');
  });

  it('reports what is missing outside of a pod', () => {
    expect(() => readAccess({ kubeconfigPath: '', masterUrl: '', environment: {} })).toThrow(
      'in-cluster configuration: KUBERNETES_SERVICE_HOST is not set; outside of a pod give --kubeconfig or --master',
    );
  });

  it.each([
    ['an alias of nothing', `${kubeconfig(url, {}, {})}\nmore: *a\n`],
    ['an alias of nothing in the list of clusters', 'clusters: [*a]\n'],
    ['lists without end', '['.repeat(20_000)],
    ['lists deeper than the stack', `${'- '.repeat(20_000)}\n`.repeat(2)],
  ])('reports a file with %s', (_, text) => {
    expect(reasonFor(text)).toMatch(/^kubeconfig FILE:/);
  });

  it('puts the IPv6 address of a server into brackets', () => {
    const environment = { KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '443' };
    const { server } = readAccess({ kubeconfigPath: '', masterUrl: '', environment });
    expect(server.href).toBe('https://[fd00::1]/');
  });

  it.each([
    ['token', 'in-cluster configuration: DIRECTORY/token does not exist'],
    ['ca.crt', 'in-cluster configuration: DIRECTORY/ca.crt does not exist'],
  ])('fails at the start if the service account has no %s', async (missing, reason) => {
    const directory = temporaryDirectory({ token: 'x', 'ca.crt': authority.certificate });
    rmSync(join(directory, missing));
    const { ended } = startSource(await startServer(), {
      masterUrl: '',
      serviceAccountDirectory: directory,
      environment: { KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: '1' },
    });
    await expect(ended).rejects.toThrow(reason.replace('DIRECTORY', directory));
  });

  it('fails at the start for invalid certificates', async () => {
    const server = await startServer();
    const ca = {
      'certificate-authority-data': base64(
        '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n',
      ),
    };
    const { ended } = startWith(server, kubeconfig(server.url, ca, {}));
    await expect(ended).rejects.toThrow(/^kubeconfig .*: unusable certificates \(ca\): /);
  });
});

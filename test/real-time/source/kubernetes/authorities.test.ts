import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { createAuthority } from '../../../fake/api-server-certificate.ts';
import { startServer, temporaryDirectory } from './setup.ts';

const folder = resolve(import.meta.dirname, '..', '..', '..', '..', 'src', 'source', 'kubernetes');

/** Connects as the kubeconfig says. Prints whether the server is trusted, and Node's authorities. */
const script = `
  import { syncBuiltinESMExports } from 'node:module';
  import tls from 'node:tls';
  const { createSecureContext } = tls;
  let given = [];
  tls.createSecureContext = (options) => {
    given = options.ca;
    return createSecureContext(options);
  };
  syncBuiltinESMExports();
  const { CredentialReader } = await import(${JSON.stringify(join(folder, 'credentials.ts'))});
  const { readAccess } = await import(${JSON.stringify(join(folder, 'kubeconfig.ts'))});
  const access = readAccess({ kubeconfigPath: process.argv[1], masterUrl: '' });
  const { secureContext } = await new CredentialReader(access, 1000).read();
  const { hostname: host, port } = access.server;
  const socket = tls.connect({ host, port, secureContext, rejectUnauthorized: false });
  socket.on('secureConnect', () => {
    const usual = tls.rootCertificates.every((one) => given.includes(one));
    console.log(JSON.stringify({ trusted: socket.authorized, usual }));
    socket.destroy();
  });
`;

async function trustedBy(
  url: string,
  environment: Readonly<Record<string, string>>,
): Promise<unknown> {
  const clusters = [{ name: 'fake', cluster: { server: url } }];
  const contexts = [{ name: 'main', context: { cluster: 'fake', user: 'proxy' } }];
  const users = [{ name: 'proxy', user: {} }];
  const config = JSON.stringify({ 'current-context': 'main', clusters, contexts, users });
  const kubeconfig = join(temporaryDirectory({ config }), 'config');
  // As bin/fairlead starts it.
  const flags = ['--use-openssl-ca', '--input-type=module', '-e', script, kubeconfig];
  const { stdout } = await promisify(execFile)(process.execPath, flags, { env: environment });
  return JSON.parse(stdout);
}

it('a kubeconfig without authorities trusts those of Node, and those that its variable adds', async () => {
  const authority = createAuthority();
  const server = await startServer({ tls: authority.issue('fake', ['127.0.0.1']) });
  const file = join(temporaryDirectory({ 'ca.crt': authority.certificate }), 'ca.crt');
  const added = { NODE_EXTRA_CA_CERTS: file };
  expect(await trustedBy(server.url, added)).toEqual({ trusted: true, usual: true });
  // What OpenSSL would trust by itself.
  const ofOpenSsl = { SSL_CERT_FILE: file };
  expect(await trustedBy(server.url, ofOpenSsl)).toEqual({ trusted: false, usual: true });
});

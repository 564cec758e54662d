/**
 * `fairlead bundle` of the running program, on a node with other rules, and with a token to hide.
 */
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { createNamespace, type Namespace } from '../conformance/namespace.ts';
import { FakeApi } from '../fake/api-server-process.ts';
import { main } from './main.ts';
import { forwards, inForce, listens, Program, temporaryDirectory } from './program.ts';

const token =
  'eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJzdWIiOiJub2RlIn0.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg';

/** The files of the archive by name, as tar reads them. */
async function bundle({ name }: Namespace): Promise<ReadonlyMap<string, string>> {
  const folder = temporaryDirectory();
  const path = join(folder, 'bundle.tar');
  const argv = ['netns', 'exec', name, 'env', '-i', process.execPath, main, 'bundle'];
  writeFileSync(path, await output('ip', argv));
  const names = (await output('tar', ['-tf', path])).toString().trim().split('\n');
  const files = new Map<string, string>();
  for (const file of names) {
    const text = await output('tar', ['-xOf', path, file]);
    files.set(file.replace('fairlead-bundle/', ''), text.toString());
  }
  return files;
}

async function output(program: string, argv: readonly string[]): Promise<Buffer> {
  const child = spawn(program, argv, { stdio: ['ignore', 'pipe', 'inherit'] });
  const code = new Promise((done) => child.once('close', done));
  const bytes = await buffer(child.stdout);
  expect(await code).toBe(0);
  return bytes;
}

test('a bundle contains rules of all programs and no token, also while the process hangs', async () => {
  const namespace = await createNamespace();
  await namespace.run('ip', ['link', 'set', 'lo', 'up']);
  await namespace.run('ip', ['address', 'add', '192.0.2.1', 'dev', 'lo']);
  await forwards(namespace);
  const api = await FakeApi.start(namespace);
  onTestFinished(() => api.close());
  const status = { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] };
  await api.ask({ do: 'apply', object: { kind: 'Node', metadata: { name: 'node-1' }, status } });
  await api.ask({ do: 'populate', services: 20, endpoints: 3 });
  const access = parse(readFileSync(api.kubeconfig, 'utf8'));
  access.users[0].user = { ...access.users[0].user, token };
  const kubeconfig = join(temporaryDirectory(), 'kubeconfig');
  writeFileSync(kubeconfig, stringify(access));
  const limits = ['max-per-core=0', 'tcp-timeout-established=0s', 'tcp-timeout-close-wait=0s'];
  const program = new Program(namespace, [
    ...[`--kubeconfig=${kubeconfig}`, '--hostname-override=node-1'],
    ...['--proxy-mode=nftables', ...limits.map((limit) => `--conntrack-${limit}`)],
  ]);
  await program.logged(inForce, 2);
  await listens(namespace, 10_249);
  const foreign =
    'add table inet wall; add chain inet wall gate { type filter hook forward priority 5; policy drop; }; ' +
    'add rule inet wall gate tcp dport 8080 drop comment "closed"';
  await namespace.run('nft', [foreign]);

  const files = await bundle(namespace);
  expect(JSON.parse(files.get('status.json')!)).toMatchObject({ healthy: true, node: 'node-1' });
  expect(files.get('configuration.json')).toContain(kubeconfig);
  const rules = files.get('ruleset.nft.txt')!;
  expect(rules).toContain('table ip fairlead {\n');
  expect(rules).toContain(
    '  chain gate {\n    type filter hook forward priority 5; policy drop;\n',
  );
  expect(rules).toMatch(/ dport 8080 .*drop comment "closed"\n/);
  expect(files.get('sysctls.txt')).toMatch(/^net\.ipv4\.ip_forward = [01]$/m);
  for (const [name, text] of files) {
    for (const part of token.split('.')) expect([name, text.includes(part)]).toEqual([name, false]);
    // Where the kernel and its modules are in memory.
    const where = /(?<![\da-f])ffff[\da-f]{12}(?![\da-f])/i.exec(text);
    expect([name, where]).toEqual([name, null]);
  }

  program.kill('SIGSTOP');
  onTestFinished(() => program.kill('SIGCONT'));
  const without = await bundle(namespace);
  expect(without.get('status.json')).toMatch(/^could not be read: /);
  expect(without.get('ruleset.nft.txt')).toBe(rules);
});

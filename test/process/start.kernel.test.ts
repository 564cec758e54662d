/** A start that can never serve anything: it says why, and the machine stays as it is. */
import { expect, test } from 'vitest';
import { createNamespace, type Namespace } from '../conformance/namespace.ts';
import { main } from './main.ts';
import { Program } from './program.ts';

/** What a start writes first, of what is the namespace's own. */
async function machine(namespace: Namespace): Promise<string> {
  const timeouts = 'grep . /proc/sys/net/netfilter/nf_conntrack_*_timeout*';
  const settings = await namespace.run('sh', ['-c', timeouts]);
  const tables = await namespace.run('nft', ['list', 'ruleset']);
  const links = await namespace.run('ip', ['address']);
  return [settings, tables, links].join('\n');
}

const withoutCluster = ['env', '-u', 'KUBERNETES_SERVICE_HOST', '-u', 'KUBERNETES_SERVICE_PORT'];

test.each([
  [['--kubeconfig=/nonexistent'], 'kubeconfig /nonexistent: does not exist'],
  [['--manifests=/nonexistent'], 'manifests directory /nonexistent: '],
  [['--init-only', '--kubeconfig=/nonexistent'], 'kubeconfig /nonexistent: does not exist'],
  [[], 'in-cluster configuration: KUBERNETES_SERVICE_HOST is not set'],
])('a start with %j fails, and changes nothing', async (args, reason) => {
  const namespace = await createNamespace();
  const before = await machine(namespace);
  const program = new Program(namespace, args, { within: withoutCluster });
  expect(await program.exitCode).toBe(1);
  const errors = program.lines.map(({ err }) => err);
  expect(errors).toContainEqual(expect.stringContaining(reason));
  expect(await machine(namespace)).toBe(before);
});

test('a start without arguments at a terminal without a cluster prints help', async () => {
  const namespace = await createNamespace();
  const before = await machine(namespace);
  const terminal = `exec ${process.execPath} ${main}`;
  const within = [...withoutCluster, 'script', '-qec', terminal, '/dev/null'];
  const text = await namespace.run(within[0]!, within.slice(1));
  expect(text).toContain('fairlead COMMAND [flags]');
  expect(text).not.toContain('KUBERNETES_SERVICE_HOST');
  expect(await machine(namespace)).toBe(before);
});

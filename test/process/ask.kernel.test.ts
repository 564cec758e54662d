/**
 * The program, an API server, and the commands that ask it, as `kubectl exec` runs them: without a
 * terminal and with nothing in the environment.
 */
import { spawn } from 'node:child_process';
import { expect, onTestFinished, test } from 'vitest';
import { createNamespace, type Namespace } from '../conformance/namespace.ts';
import { FakeApi } from '../fake/api-server-process.ts';
import { main } from './main.ts';
import { type Output, outputOf } from './output-of.ts';
import {
  canProve,
  forwards,
  inForce,
  listens,
  Program,
  until,
  withoutCapabilities,
} from './program.ts';

function said(namespace: Namespace, ...args: readonly string[]): Promise<Output> {
  return saidWithin(namespace, [], ...args);
}

async function saidWithin(
  { name }: Namespace,
  within: readonly string[],
  ...args: readonly string[]
): Promise<Output> {
  const argv = ['netns', 'exec', name, 'env', '-i', ...within, process.execPath, main, ...args];
  const child = spawn('ip', argv, { stdio: ['ignore', 'pipe', 'pipe'] });
  return outputOf(child);
}

const node = {
  kind: 'Node',
  metadata: { name: 'node-1', labels: { 'topology.kubernetes.io/zone': 'zone-a' } },
  status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] },
};

test('the running process answers questions about its status and about Services', async () => {
  const namespace = await createNamespace();
  await namespace.run('ip', ['link', 'set', 'lo', 'up']);
  await namespace.run('ip', ['address', 'add', '192.0.2.1', 'dev', 'lo']);
  await forwards(namespace);
  // Endpoints without a route are a problem.
  await namespace.run('ip', ['route', 'add', 'default', 'dev', 'lo']);
  const api = await FakeApi.start(namespace);
  onTestFinished(() => api.close());
  await api.ask({ do: 'apply', object: node });
  await api.ask({ do: 'populate', services: 700, endpoints: 3 });
  const limits = ['max-per-core=0', 'tcp-timeout-established=0s', 'tcp-timeout-close-wait=0s'];
  const program = new Program(namespace, [
    ...[`--kubeconfig=${api.kubeconfig}`, '--hostname-override=node-1'],
    ...['--proxy-mode=nftables', ...limits.map((limit) => `--conntrack-${limit}`)],
  ]);
  await program.logged(inForce, 2);
  await listens(namespace, 10_249);

  const status = await said(namespace, 'status', '-o', 'json');
  expect([status.code, status.stderr]).toEqual([0, '']);
  expect(JSON.parse(status.stdout)).toMatchObject({
    ...{ kind: 'Status', healthy: true, problems: [], node: 'node-1' },
    mode: { name: 'nftables' },
    source: { kind: 'kubernetes', server: expect.stringMatching(/^https:\/\/127\.0\.0\.1:/) },
    services: { known: 700, waiting: 0, setAside: 0 },
  });
  expect((await said(namespace, 'status')).stdout).toMatch(/\nservices +watching +.* ago\n/);

  const list = await said(namespace, 'service', 'list');
  const rows = list.stdout.trim().split('\n').slice(1);
  expect(rows).toHaveLength(700);
  for (const row of rows) expect(row).toMatch(/ 3\/3 +in force$/);
  const [where, name] = rows[0]!.split(/ +/);
  const show = await said(namespace, 'service', 'show', `${where}/${name}`, '-o', 'json');
  const { ports } = JSON.parse(show.stdout) as { ports: { kernel: string[] }[] };
  const elements = ports[0]!.kernel.filter((line) => line.includes(': goto '));
  expect(elements).not.toEqual([]);
  for (const line of elements) {
    const [, map, element] = /^map ip fairlead (\S+) \{ (.+) : goto .* \}$/.exec(line)!;
    const get = ['get', 'element', 'ip', 'fairlead', map!, `{ ${element} }`];
    expect(await namespace.run('nft', get)).toContain(line.slice(line.indexOf('{') + 2, -2));
  }

  const asking = ['explain', `${where}/${name}:80`, '--from', 'pod/default/nobody'];
  expect((await said(namespace, ...asking)).stderr).toMatch(/default\/nobody/);
  if (canProve) {
    const refused = await saidWithin(namespace, withoutCapabilities, ...asking);
    expect([refused.code, refused.stdout]).toEqual([1, '']);
    expect(refused.stderr).toMatch(/^Error: it would be asked with the credentials of the node/);
  }

  await api.ask({ do: 'replace', count: 1 });
  await until(async () => {
    const { stdout } = await said(namespace, 'status', '-o', 'json');
    return JSON.parse(stdout).families[0].lastSync.purpose === 'changes';
  }, 'the change is in force');

  await api.ask({ do: 'fault', rule: { fault: { kind: 'drop' }, times: 1_000_000 } });
  for (const resource of ['services', 'endpointslices', 'nodes', 'servicecidrs']) {
    await api.ask({ do: 'disturb', resource, disturbance: 'drop' });
  }
  const lost = await program.logged('Lost the API server; rules stay in force');
  expect(lost).toMatchObject({ server: expect.stringMatching(/^https:/), err: expect.any(String) });
  await api.ask({ do: 'heal' });
  await program.logged('API server answers again');
  expect(program.lines.filter(({ msg }) => msg === 'Error reading objects')).toEqual([]);

  program.kill('SIGTERM');
  await program.exitCode;
  const nobody = await said(namespace, 'status');
  expect([nobody.code, nobody.stdout]).toEqual([3, '']);
  expect(nobody.stderr).toMatch(/^Error: cannot reach http:\/\/127\.0\.0\.1:10249: /);
});

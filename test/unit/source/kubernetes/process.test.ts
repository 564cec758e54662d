import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { KubernetesSource } from '../../../../src/source/kubernetes/source.ts';
import { Recorder, until } from '../recorder.ts';
import { cleanUp } from './setup.ts';

it('reads a cluster over TLS from a fake API server in another process', async () => {
  const main = fileURLToPath(new URL('../../../fake/api-server-main.ts', import.meta.url));
  const server = spawn(process.execPath, [main, '--tls'], { stdio: ['pipe', 'pipe', 'inherit'] });
  cleanUp(async () => {
    server.stdin.end();
    if (server.exitCode === null) await once(server, 'exit');
  });
  const lines = createInterface({ input: server.stdout })[Symbol.asyncIterator]();
  const answer = async () => JSON.parse(String((await lines.next()).value));
  const { kubeconfig } = await answer();
  const command = async (value: object): Promise<unknown> => {
    server.stdin.write(`${JSON.stringify(value)}\n`);
    return (await answer()).result;
  };
  await command({ do: 'populate', services: 300, endpoints: 30 });
  const sink = new Recorder();
  const controller = new AbortController();
  const source = new KubernetesSource({
    nodeName: 'node-1',
    kubeconfigPath: kubeconfig,
    masterUrl: '',
    qps: 5,
    burst: 10,
    userAgent: 'fairlead/test',
  });
  const ended = source.run(sink, controller.signal);
  await until('synced', () => sink.syncedResources.length === 4);
  expect(sink.changes).toHaveLength(300 + 300 + 1);
  await command({ do: 'replace', count: 40 });
  await until('replaced', () => sink.changes.length === 601 + 40);
  expect(await command({ do: 'counts' })).toMatchObject({ 'endpointslices streaming-list': 1 });
  controller.abort();
  await ended;
  expect(sink.problems).toEqual([]);
});

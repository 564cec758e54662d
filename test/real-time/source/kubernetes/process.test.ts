import { expect, it, onTestFinished } from 'vitest';
import { KubernetesSource } from '../../../../src/source/kubernetes/source.ts';
import { FakeApi } from '../../../fake/api-server-process.ts';
import { Recorder } from '../../../unit/source/recorder.ts';
import { until } from '../../until.ts';

it('the source reads a cluster over TLS from a fake API server in another process', async () => {
  const api = await FakeApi.start();
  onTestFinished(() => api.close());
  await api.ask({ do: 'populate', services: 300, endpoints: 30 });
  const sink = new Recorder();
  const controller = new AbortController();
  const source = new KubernetesSource({
    nodeName: 'node-1',
    kubeconfigPath: api.kubeconfig,
    masterUrl: '',
    qps: 5,
    burst: 10,
    userAgent: 'fairlead/test',
  });
  const ended = source.run(sink, controller.signal);
  await until('synced', () => sink.syncedResources.length === 4);
  expect(sink.changes).toHaveLength(300 + 300 + 1);
  await api.ask({ do: 'replace', count: 40 });
  await until('replaced', () => sink.changes.length === 601 + 40);
  expect(await api.ask({ do: 'counts' })).toMatchObject({ 'endpointslices streaming-list': 1 });
  controller.abort();
  await ended;
  expect(sink.problems).toEqual([]);
});

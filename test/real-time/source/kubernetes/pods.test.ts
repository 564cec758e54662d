/** The pods of this node that a selector chooses. */
import { expect, it, onTestFinished } from 'vitest';
import { podWatch } from '../../../../src/source/kubernetes/pods.ts';
import type { ReflectorTiming } from '../../../../src/source/kubernetes/timing.ts';
import type { ListAttempt, SourceProblem } from '../../../../src/source/source.ts';
import type { FakeApiServer } from '../../../fake/api-server.ts';
import { until } from '../../until.ts';
import { contentTypes, hasty, startServer } from './setup.ts';

interface Watched {
  /** What the kubelet calls them, by key; undefined = there was no complete list. */
  pods: Record<string, string> | undefined;
  /** The number of reports. */
  told: number;
  readonly unavailable: string[];
  readonly problems: SourceProblem[];
  readonly lists: ListAttempt[];
}

function watch(server: FakeApiServer, timing: Partial<ReflectorTiming> = hasty): Watched {
  const watched: Watched = { pods: undefined, told: 0, unavailable: [], problems: [], lists: [] };
  const controller = new AbortController();
  const watchPods = podWatch({
    ...{ nodeName: 'here', kubeconfigPath: '', masterUrl: server.url, qps: -1, burst: 10 },
    ...{ userAgent: 'fairlead/test', contentTypes, timing },
  });
  const sink = {
    chosen: (pods: ReadonlyMap<string, { readonly id: string }>) => {
      watched.told += 1;
      watched.pods = Object.fromEntries(Array.from(pods, ([key, { id }]) => [key, id]));
    },
    unavailable: (reason: string) => watched.unavailable.push(reason),
    problem: (problem: SourceProblem) => watched.problems.push(problem),
    listed: (attempt: ListAttempt) => watched.lists.push(attempt),
  };
  const ended = watchPods('mesh=in', sink, controller.signal);
  onTestFinished(async () => {
    controller.abort();
    await ended;
  });
  return watched;
}

interface Given {
  readonly labels?: Record<string, string>;
  readonly nodeName?: string;
  readonly phase?: string;
  readonly annotations?: Record<string, string>;
  readonly uid?: string;
  readonly version?: number;
}

function pod(server: FakeApiServer, name: string, given: Given = {}): void {
  const { labels = { mesh: 'in' }, nodeName = 'here', phase = 'Running', annotations } = given;
  const { uid = `uid-${name}`, version } = given;
  const raw = {
    kind: 'Pod',
    metadata: { namespace: 'shop', name, uid, labels, annotations },
    spec: { nodeName, containers: [{ name: 'main', image: 'web' }] },
    status: { phase },
  };
  server.store.apply(raw, version);
}

it('the pod watch reports the running pods of this node that match the selector', async () => {
  const server = await startServer();
  pod(server, 'a');
  pod(server, 'elsewhere', { nodeName: 'there' });
  pod(server, 'unlabelled', { labels: {} });
  pod(server, 'done', { phase: 'Succeeded' });
  const watched = watch(server);
  await until('the list', () => watched.pods !== undefined);
  expect(watched.pods).toEqual({ 'shop/a': 'uid-a' });
  expect(watched.lists).toMatchObject([{ resource: 'pods', result: 'complete' }]);
});

it('the pod watch follows labels, new and deleted pods, and pods that end', async () => {
  const server = await startServer();
  const watched = watch(server);
  await until('the list', () => watched.pods !== undefined);
  expect(watched.pods).toEqual({});
  for (const name of ['a', 'b', 'c']) pod(server, name, { labels: {} });
  for (const name of ['a', 'b', 'c']) pod(server, name);
  await until('all', () => Object.keys(watched.pods!).length === 3);
  const { told } = watched;
  pod(server, 'b', { phase: 'Pending' });
  pod(server, 'd');
  await until('another', () => Object.keys(watched.pods!).length === 4);
  expect(watched.told).toBe(told + 1);
  server.store.delete('pods', 'shop/d');
  pod(server, 'a', { labels: { mesh: 'out' } });
  pod(server, 'b', { phase: 'Failed' });
  server.store.delete('pods', 'shop/c');
  await until('none', () => Object.keys(watched.pods!).length === 0);
  expect(watched.problems).toEqual([]);
});

it("the pod watch uses the kubelet's identifier of a static pod", async () => {
  const hash = '0123456789abcdef0123456789abcdef';
  const mirror = 'kubernetes.io/config.mirror';
  const server = await startServer();
  pod(server, 'static', { annotations: { [mirror]: hash } });
  // The name of another pod: whoever may write pods could have it excluded.
  pod(server, 'sly', { annotations: { [mirror]: '6f1c8a5e-0d3b-4c57-9f0e-2f3a4b5c6d7e' } });
  const watched = watch(server);
  await until('the list', () => watched.pods !== undefined);
  expect(watched.pods).toEqual({ 'shop/static': hash, 'shop/sly': 'uid-sly' });
});

it('the pod watch reports that the server forbids it, and continues when it is permitted', async () => {
  const server = await startServer();
  server.fault({ resource: 'pods', fault: { kind: 'status', status: 403 }, times: 2 });
  pod(server, 'a');
  const watched = watch(server);
  await until('a reason', () => watched.unavailable.length > 0);
  expect(watched.unavailable).toEqual([expect.stringContaining('forbidden')]);
  expect(watched.pods).toBeUndefined();
  await until('the list', () => watched.pods !== undefined);
  expect(watched.pods).toEqual({ 'shop/a': 'uid-a' });
});

it('the pod watch keeps its state through a lost connection, and misses no deletion', async () => {
  const server = await startServer();
  for (const name of ['a', 'b']) pod(server, name);
  const watched = watch(server);
  await until('both', () => Object.keys(watched.pods ?? {}).length === 2);
  server.disturb('pods', 'stall');
  server.store.delete('pods', 'shop/a');
  server.store.compact();
  server.disturb('pods', 'drop');
  await until('one', () => Object.keys(watched.pods ?? {}).length === 1);
  expect(watched.pods).toEqual({ 'shop/b': 'uid-b' });
});

it('the pod watch finds pods of a restored server that have the revisions of others', async () => {
  const server = await startServer();
  pod(server, 'a');
  const { restore } = server.store.backup();
  const version = server.store.version + 1;
  pod(server, 'a', { version, uid: 'lost' });
  pod(server, 'b');
  const watched = watch(server, {
    ...hasty,
    compareMinMs: 20,
    compareMaxMs: 40,
    compareShareMax: 1,
  });
  await until('both', () => Object.keys(watched.pods ?? {}).length === 2);
  server.disturb('pods', 'stall');
  restore();
  pod(server, 'a', { version, uid: 'new' });
  server.store.version = version + 100;
  await until('the new one', () => watched.pods?.['shop/a'] === 'new');
  await until('reported', () => watched.problems.length > 0);
  expect(watched.pods).toEqual({ 'shop/a': 'new' });
  expect(watched.problems).toEqual([
    {
      subject: 'pods watch',
      field: undefined,
      reason: 'objects had changed without an event',
      corrected: 2,
    },
  ]);
});

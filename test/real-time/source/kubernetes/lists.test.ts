import { describe, expect, it } from 'vitest';
import { statusError } from '../../../../src/source/kubernetes/errors.ts';
import { resources } from '../../../../src/state/change.ts';
import type { Fault } from '../../../fake/api-server-answer.ts';
import { streamingListUnbacked } from '../../../fake/api-server-recorded.ts';
import { FakeStore } from '../../../fake/api-server-store.ts';
import { until } from '../../until.ts';
import {
  asksProtobuf,
  blind,
  change,
  faults,
  hasty,
  impatient,
  isGone,
  populate,
  setEndpoints,
  startCluster,
  startServer,
  startSource,
} from './setup.ts';

const statuses = [400, 401, 403, 404, 405, 406, 409, 410, 415, 422, 429, 500, 501, 502, 503, 504];

const added = JSON.stringify({
  type: 'ADDED',
  object: { metadata: { namespace: 'shop', name: 'lost', resourceVersion: '7' } },
});

/** Ways in which a streaming list may fail, for ever. */
const failures: readonly (readonly [string, Fault])[] = [
  ...statuses.map((status) => [`says ${status}`, { kind: 'status', status }] as const),
  ...faults.filter(([what]) => !what.startsWith('says') && what !== 'answers late'),
  ['says 200 and an ERROR event', { kind: 'foreign', body: streamingListUnbacked }],
  [
    'sends an object and an ERROR event',
    { kind: 'foreign', body: `${added}\n${streamingListUnbacked}` },
  ],
  ['sends nothing', { kind: 'foreign', body: '' }],
  ['sends an object and ends', { kind: 'foreign', body: `${added}\n` }],
];

describe('the first list', () => {
  it.each(failures)('comes in pages immediately where a stream %s', async (what, fault) => {
    const server = await startCluster();
    server.fault({ verb: 'streaming-list', fault, times: 100_000 });
    // A reason to wait would be seen.
    const longMs = 60_000;
    const backoff = { backoffBaseMs: longMs, backoffMaxMs: longMs, backoffFirstMaxMs: longMs };
    // Pages may take their time: the machine may be busy, and such a failure would wait.
    const timing = { ...impatient, idleTimeoutMs: 5000, ...backoff };
    const { sink, converged } = startSource(server, { timing });
    await converged();
    change(server, 1);
    await converged();
    // Where protobuf is refused, JSON is asked for before that.
    const isOfType = asksProtobuf && /says (406|415)/.test(what);
    for (const resource of resources) {
      const asked = server.count(resource, 'streaming-list');
      expect(isOfType ? [1, 2] : [1]).toContain(asked);
      expect(server.count(resource, 'list')).toBe(1);
      const attempts = sink.lists.filter((list) => list.resource === resource);
      expect(attempts).toEqual([
        { resource, method: 'streaming', result: 'failed', reason: expect.any(String) },
        { resource, method: 'paged', result: 'complete', reason: attempts[0]!.reason },
      ]);
    }
  });

  it.each([
    ['the feature is off', { streamingLists: 'refused' }],
    ['etcd is too old for it', { streamingLists: 'unbacked', bookmarkMs: 'never' }],
    ['the server takes it for a watch', { streamingLists: 'ignored' }],
    ['such a server sends no bookmarks', { streamingLists: 'ignored', bookmarkMs: 'never' }],
    ['a gateway strips the query', { gateway: 'strips the query' }],
    ['a gateway strips new parameters', { gateway: 'strips new parameters' }],
    ['a gateway buffers bodies', { gateway: 'buffers bodies' }],
    ['a gateway buffers answers', { gateway: 'buffers answers' }],
  ] as const)('and changes are read although %s', async (_what, options) => {
    const server = await startCluster(20, options);
    const timing = {
      ...hasty,
      idleTimeoutMs: 1500,
      listIdleMs: 300,
      quietWatchSeconds: 1,
      bufferedWatchSeconds: 1,
    };
    const { sink, converged } = startSource(server, { timing });
    await converged();
    for (let i = 0; i < 3; i += 1) {
      change(server, i);
      server.store.delete('services', `shop/s${i + 5}`);
      await converged();
    }
    expect(sink.changes.filter(isGone)).toHaveLength(3);
    expect(sink.lists.find(({ result }) => result === 'complete')?.method).toBe('paged');
    expect(sink.names()).not.toContain('node there');
  });

  it('is read from etcd if the cache of the server cannot serve it', async () => {
    const server = await startCluster(20, { streamingLists: 'refused' });
    // The first list of each resource is asked of the cache.
    const fault = { kind: 'status', status: 500 } as const;
    for (const resource of resources) server.fault({ resource, verb: 'list', fault });
    const { converged } = startSource(server);
    await converged();
    expect(server.count('endpointslices', 'page')).toBe(2);
  });

  it('is abandoned if its pages form a cycle', async () => {
    const server = await startCluster(20, { streamingLists: 'refused' });
    const metadata = { resourceVersion: '5', continue: 'again' };
    const body = JSON.stringify({ metadata, items: [] });
    server.fault({ resource: 'services', fault: { kind: 'foreign', body }, times: 5 });
    const { sink, converged } = startSource(server);
    await converged();
    expect(sink.said()).toContain('services watch: the list goes in circles');
  });
});

describe('a server whose resourceVersion went back', () => {
  it.each([
    ['with its connections', 'supported'],
    ['with its connections', 'unbacked'],
    ['behind a gateway that keeps them', 'supported'],
    ['behind a gateway that keeps them', 'unbacked'],
  ] as const)(
    'is listed again, although it accepts watches from a future version: %s, streams %s',
    async (how, streamingLists) => {
      const server = await startServer({ streamingLists });
      server.store.version = 100_000;
      populate(server);
      const { port } = server;
      const timing = { ...hasty, idleTimeoutMs: 1500, quietWatchSeconds: 1 };
      const { sink, converged } = startSource(server, { timing });
      await converged();
      const setBack = (): void => {
        server.store.version = 2000;
        server.store.compact();
      };
      if (how === 'with its connections') await server.close();
      for (const resource of resources) blind(server, resource);
      server.store.delete('services', 'shop/s1');
      setBack();
      if (how === 'with its connections') {
        // Roles are not known yet.
        const fault = { kind: 'status', status: 403 } as const;
        for (const resource of resources) {
          server.fault({ resource, verb: 'probe', fault: { kind: 'drop' } });
          server.fault({ resource, fault, times: 4 });
        }
        await server.listen(port);
      }
      await converged();
      change(server, 3);
      await converged();
      expect(sink.said()).toContain('services watch: the server is at an earlier time than it was');
      expect(sink.changes.filter(isGone)).toHaveLength(1);
    },
  );

  it('is detected immediately although it rejects requests until it has started', async () => {
    const server = await startServer();
    server.store.version = 100_000;
    populate(server);
    const timing = { ...hasty, idleTimeoutMs: 600_000, bufferedWatchSeconds: 600 };
    const { converged } = startSource(server, { timing });
    await converged();
    const { port } = server;
    await server.close();
    server.store.version = 2000;
    server.store.compact();
    const fault = { kind: 'status', status: 504 } as const;
    for (const resource of resources) server.fault({ resource, verb: 'probe', fault, times: 3 });
    await server.listen(port);
    change(server, 3);
    await converged();
  });

  it('is checked without comparing all Services and slices', async () => {
    const server = await startCluster();
    const { converged } = startSource(server);
    await converged();
    const { port } = server;
    await server.close();
    await server.listen(port);
    await until('watching', () => resources.every((one) => server.count(one, 'watch') === 1));
    expect(resources.map((one) => server.count(one, 'probe'))).toEqual([1, 1, 1, 1]);
    // The Node and the ServiceCIDR.
    expect(server.candidates).toBe(2);
    // Each watch continues over the connection of its probe.
    expect(server.connections).toBe(4);
  });

  it('is noticed where only one resource is in an etcd that was restored: all are listed', async () => {
    const store = new FakeStore();
    store.version = 100_000;
    const server = await startCluster(3, { stores: { endpointslices: store } });
    setEndpoints({ store }, 's1', ['10.0.1.1']);
    const { sink, converged } = startSource(server);
    await converged();
    const { port } = server;

    await server.close();
    setEndpoints({ store }, 's1', ['10.0.1.2']);
    await server.listen(port);
    await converged();
    expect(sink.lists).toHaveLength(4);

    await server.close();
    server.store.version += 100_000;
    store.version = 50_000;
    setEndpoints({ store }, 's1', ['10.0.1.3']);
    store.compact();
    await server.listen(port);
    await converged();
    // A streaming list is reported when it ends, after the objects.
    await until('listed', () => sink.lists.length >= 8);
    const listed = sink.lists.slice(4).map(({ resource }) => resource);
    expect(listed.sort()).toEqual([...resources].sort());
  });
});

describe('a server without bookmarks', () => {
  it('may be quiet without a limit, and is not reported', async () => {
    const server = await startCluster(3, { streamingLists: 'unbacked', bookmarkMs: 'never' });
    // A busy process may end a watch half a second early, and less than a second is a failure.
    const timing = { ...hasty, idleTimeoutMs: 3500, quietWatchSeconds: 2, probeMs: 100 };
    const { sink, source, converged } = startSource(server, { timing });
    await converged();
    await until('short watches follow', () => server.count('services', 'watch') > 3);
    expect(sink.problems).toEqual([]);
    expect(source.condition('services').silenceMs).toBeLessThan(3500);
    change(server, 1);
    await converged();
  });

  it('that does not end its watches either is reported', async () => {
    const server = await startCluster(3, { streamingLists: 'unbacked', bookmarkMs: 'never' });
    const timing = { ...hasty, idleTimeoutMs: 600, quietWatchSeconds: 60 };
    const { sink, converged } = startSource(server, { timing });
    await converged();
    blind(server, 'services');
    await until('told', () =>
      sink.said().includes('services watch: the server was silent for 0.6 s'),
    );
  });
});

it.each([
  [{ details: { retryAfterSeconds: 86_400 } }, undefined, 60_000],
  [{ details: { retryAfterSeconds: 7 } }, undefined, 7000],
  [{}, 3_000_000_000, 60_000],
  [{}, 0, 0],
  [{}, undefined, undefined],
])('Retry-After is obeyed up to a minute: %j %s', (raw, retryAfterMs, expected) => {
  const fallback = { status: 429, words: 'too many', retryAfterMs };
  expect(statusError(raw, fallback).retryAfterMs).toBe(expected);
});

it('of a message of the server the first 1,000 characters are kept', () => {
  const fallback = { status: 500, words: 'x' };
  const kept = (length: number) => statusError({ message: 'é'.repeat(length) }, fallback).message;
  expect([kept(1000).length, kept(1001).length]).toEqual([1000, 1000]);
});

import { describe, expect, it } from 'vitest';
import type { KubernetesSource } from '../../../../src/source/kubernetes/source.ts';
import { resources } from '../../../../src/state/change.ts';
import { until } from '../../until.ts';
import {
  blind,
  change,
  impatient,
  isGone,
  setEndpoints,
  startCluster,
  startSource,
  tokenAccess,
} from './setup.ts';

/** Until the watch of Services has heard from the server, which sends bookmarks each 100 ms. */
async function bookmarked(source: KubernetesSource): Promise<void> {
  const fromMs = performance.now();
  await until(
    'a bookmark',
    () => source.condition('services').silenceMs! < performance.now() - fromMs,
  );
}

describe('KubernetesSource with a faulty server', () => {
  it('rejects answers that are not lists, and deletes nothing because of them', async () => {
    const server = await startCluster(20, { streamingLists: 'refused' });
    const { sink, converged } = startSource(server);
    await converged();
    blind(server, 'services');
    server.store.delete('services', 'shop/s1');
    server.store.compact();
    for (const body of ['{"items":[]}', '{"kind":"Status","metadata":{},"items":null}', '[]', '']) {
      server.fault({ resource: 'services', verb: 'list', fault: { kind: 'foreign', body } });
    }
    server.disturb('services', 'drop');
    await converged();
    expect(sink.changes.filter(isGone)).toHaveLength(1);
    expect(server.count('services', 'list')).toBe(1 + 4 + 1);
  });

  it('does not list again after a quiet time, because of bookmarks', async () => {
    const server = await startCluster();
    const { converged, source } = startSource(server);
    await converged();
    for (let i = 0; i < 10; i += 1) change(server, i);
    await converged();
    // Nothing happened to services, but bookmarks delivered the current resourceVersion.
    await bookmarked(source);
    server.store.compact();
    server.disturb('services', 'drop');
    server.store.delete('services', 'shop/s1');
    await converged();
    expect(server.count('services', 'streaming-list')).toBe(1);
  });

  it('stays connected after its process was stopped for longer than the silence it allows', async () => {
    const server = await startCluster();
    const timing = { ...impatient, idleTimeoutMs: 2000 };
    const { sink, source, converged } = startSource(server, { timing });
    await converged();
    // The server stands still, too: it sends the next bookmark when both continue.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2500);
    await bookmarked(source);
    expect(sink.problems).toEqual([]);
    expect(server.count('services', 'watch')).toBe(0);
  });

  it('reads its token again if the old one is rejected', async () => {
    const server = await startCluster();
    server.token = 'one';
    const { files, options } = tokenAccess(server.url, 'one');
    const { sink, converged } = startSource(server, { ...options, timing: impatient });
    await converged();
    server.token = 'two';
    for (const resource of resources) server.disturb(resource, 'drop');
    await until('refused', () => sink.problems.some(({ reason }) => reason === 'Unauthorized'));
    files.write('two\n');
    change(server, 1);
    await converged();
  });

  it('obeys Retry-After', async () => {
    const server = await startCluster();
    const { converged } = startSource(server);
    await converged();
    const fault = { kind: 'status', status: 429, retryAfterSeconds: 1 } as const;
    server.fault({ resource: 'services', verb: 'watch', fault });
    server.disturb('services', 'drop');
    const before = performance.now();
    server.store.delete('services', 'shop/s1');
    await converged();
    expect(performance.now() - before).toBeGreaterThan(950);
    expect(server.count('services', 'watch')).toBe(2);
  });

  it('never exceeds qps and burst, whatever fails', async () => {
    const server = await startCluster();
    server.fault({ fault: { kind: 'status', status: 500 }, times: 100_000 });
    const timing = { ...impatient, backoffBaseMs: 1, backoffMaxMs: 2 };
    const begin = performance.now();
    const { converged } = startSource(server, { timing, qps: 20, burst: 3 });
    await new Promise((resolve) => setTimeout(resolve, 1000));
    const requests = () => [...server.counts.values()].reduce((a, b) => a + b, 0);
    await until('it asks again', () => requests() > 8);
    const allowed = 3 + (20 * (performance.now() - begin)) / 1000;
    expect(requests()).toBeLessThanOrEqual(allowed);
    server.heal();
    await converged();
  });

  it('skips an object that is too large, reports it, and deletes nothing because of it', async () => {
    const server = await startCluster();
    const { sink, converged } = startSource(server, {
      timing: { ...impatient, objectBytesMax: 2000 },
    });
    await converged();
    setEndpoints(
      server,
      's1',
      Array.from({ length: 100 }, (_, i) => `10.0.1.${i}`),
    );
    await until('listed again', () => server.count('endpointslices', 'streaming-list') === 2);
    change(server, 2);
    await until('others go on', () => {
      const found = sink.state.get('slice shop/s2-1');
      return found?.kind === 'slice' && found.slice.addresses.charCodeAt(1) === 9;
    });
    expect(sink.state.has('slice shop/s1-1')).toBe(true);
    expect(sink.said()).toContain('endpointslices watch: an object is larger than 2000 bytes');
  });

  it('skips an object of too many values, reports it, and deletes nothing because of it', async () => {
    const server = await startCluster();
    const { sink } = startSource(server);
    await until('listed', () => sink.syncedResources.length === 4);
    server.store.apply({
      kind: 'EndpointSlice',
      metadata: { namespace: 'shop', name: 's1-1' },
      addressType: 'IPv4',
      ports: new Array(1_000_001).fill({}),
      endpoints: [],
    });
    const reason = /it has more than 1000000 (fields|values)/;
    await until('read in pages', () => {
      const lists = sink.lists.filter(({ resource }) => resource === 'endpointslices');
      return lists.at(-1)!.method === 'paged' && lists.at(-1)!.result === 'complete';
    });
    change(server, 2);
    await until('others go on', () => {
      const found = sink.state.get('slice shop/s2-1');
      return found?.kind === 'slice' && found.slice.addresses.charCodeAt(1) === 9;
    });
    expect(sink.state.has('slice shop/s1-1')).toBe(true);
    expect(sink.said().some((words) => reason.test(words))).toBe(true);
  });
});

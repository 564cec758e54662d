/** A server whose etcd was restored from a backup: revisions occur a second time. */
import { describe, expect, it } from 'vitest';
import { resources } from '../../../../src/state/change.ts';
import { ClusterState } from '../../../../src/state/store.ts';
import type { FakeApiServer } from '../../../fake/api-server.ts';
import type { FakeStore } from '../../../fake/api-server-store.ts';
import { until } from '../../until.ts';
import { blind, change, hasty, populate, startServer, startSource } from './setup.ts';

const first = 1_001_000;

/** One object of each resource, written at revisions that follow `first`. */
function write(store: FakeStore, uid: string, block: number): void {
  const generation = 2;
  store.apply({ kind: 'Node', metadata: { name: 'here', uid, labels: zone(block) } }, first);
  store.apply(
    {
      kind: 'ServiceCIDR',
      metadata: { name: 'kubernetes', uid, generation },
      spec: { cidrs: [`10.${block}.0.0/16`] },
    },
    first + 1,
  );
  store.apply(
    {
      kind: 'Service',
      metadata: { namespace: 'shop', name: 's1', uid },
      spec: { clusterIP: '10.96.1.1', ports: [{ name: 'http', port: block }] },
    },
    first + 2,
  );
  store.apply(
    {
      kind: 'EndpointSlice',
      metadata: {
        ...{ namespace: 'shop', name: 's1-1', uid, generation },
        labels: { 'kubernetes.io/service-name': 's1' },
      },
      addressType: 'IPv4',
      ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
      endpoints: [{ addresses: [`10.0.1.${block}`] }],
    },
    first + 3,
  );
}

function zone(block: number): Record<string, string> {
  return { 'topology.kubernetes.io/zone': `zone-${block}` };
}

/** A server whose first history is lost at version `first + 100`, and a source that has read it. */
async function lose(server: FakeApiServer, timing: object) {
  const { store } = server;
  populate(server);
  const { restore } = store.backup();
  const lab = startSource(server, { timing: { ...hasty, ...timing } });
  await lab.converged();
  write(store, 'one', 1);
  store.delete('services', 'shop/s2');
  store.version = first + 50;
  change(server, 3);
  store.version = first + 100;
  const bookmarkAtMs = performance.now();
  for (const resource of resources) server.disturb(resource, 'bookmark');
  const silenceMs = (): number[] => resources.map((one) => lab.source.condition(one).silenceMs!);
  await until('at this version', () =>
    silenceMs().every((ms) => ms < performance.now() - bookmarkAtMs),
  );
  await lab.converged();
  return { ...lab, restore };
}

/** Another history, with the same revisions. */
function relive(server: FakeApiServer, restore: () => void, uid: string, version: number): void {
  const { store } = server;
  restore();
  write(store, uid, 2);
  store.delete('services', 'shop/s4');
  store.version = version;
}

describe.each([
  ['the same uid', 'one'],
  ['another uid', 'two'],
])('objects that were written again at the same revision, with %s', (_uid, uid) => {
  it.each([
    ['the server is behind our position', first + 99],
    ['the server is at a tenth of our position', 100_000],
  ])('are read again immediately if %s', async (_where, version) => {
    const server = await startServer();
    const { converged, restore, sink } = await lose(server, {});
    const { port } = server;
    await server.close();
    relive(server, restore, uid, version);
    await server.listen(port);
    await converged();
    expect(sink.said()).toContain(
      'endpointslices watch: the server is at an earlier time than it was',
    );
  });

  it('are read again if the server has forgotten the position', async () => {
    const server = await startServer();
    const { converged, restore } = await lose(server, {});
    const { port } = server;
    await server.close();
    relive(server, restore, uid, first + 200);
    server.store.compact();
    await server.listen(port);
    await converged();
  });
});

describe('a server that was set back is noticed', () => {
  it('soon, although it does not say its version at first', async () => {
    const server = await startServer();
    const timing = { probeMaxMs: 100, idleTimeoutMs: 600_000, bufferedWatchSeconds: 1 };
    const { converged, restore } = await lose(server, timing);
    const { port } = server;
    await server.close();
    relive(server, restore, 'one', first + 99);
    for (const resource of resources) {
      server.fault({ resource, verb: 'probe', fault: { kind: 'stall' } });
    }
    await server.listen(port);
    await converged();
  });

  it('for all resources by the first one, each of which is listed once', async () => {
    const server = await startServer();
    const { converged, restore, sink } = await lose(server, { probeMaxMs: 1000 });
    const { port } = server;
    await server.close();
    relive(server, restore, 'one', first + 99);
    for (const resource of resources.filter((one) => one !== 'services')) {
      const fault = { kind: 'stall' } as const;
      server.fault({ resource, verb: 'probe', fault, times: Number.POSITIVE_INFINITY });
    }
    await server.listen(port);
    await converged();
    await until('listed', () => sink.lists.length >= 2 * resources.length);
    expect(sink.lists.map(({ resource }) => resource).sort()).toEqual(
      [...resources, ...resources].sort(),
    );
  });

  it.each([401, 403, 502])('although no connection was lost, by status %d', async (status) => {
    const server = await startServer();
    const { converged, restore } = await lose(server, {});
    for (const resource of resources) blind(server, resource);
    relive(server, restore, 'one', first + 99);
    for (const resource of resources) {
      server.fault({ resource, verb: 'watch', fault: { kind: 'status', status } });
      server.disturb(resource, 'end');
    }
    await converged();
  });

  it.each([410, 429])('and not looked for after status %d', async (status) => {
    const server = await startServer();
    populate(server, 2);
    const { converged } = startSource(server);
    await converged();
    const fault = { kind: 'status', status, retryAfterSeconds: 0 } as const;
    server.fault({ resource: 'services', verb: 'watch', fault });
    server.disturb('services', 'end');
    change(server, 1);
    await until('asked again', () => server.watching('services') === 1);
    await converged();
    expect(server.count('services', 'probe')).toBe(0);
  });
});

describe('objects that are listed again', () => {
  it('change nothing if they are as they were', async () => {
    const server = await startServer();
    populate(server);
    const { converged, sink } = startSource(server);
    await converged();
    const state = new ClusterState();
    for (const one of sink.changes) state.apply(one);
    const { length } = sink.changes;
    const { port } = server;
    await server.close();
    server.store.version = 100_000;
    server.store.compact();
    await server.listen(port);
    await until('listed', () => sink.lists.length === 8);
    const again = sink.changes.slice(length);
    expect(again).toHaveLength(20 + 20 + 1 + 1);
    expect(again.filter((one) => state.apply(one) === 'changed')).toEqual([]);
  });

  it('are reported once if something is wrong with them', async () => {
    const server = await startServer();
    populate(server, 2);
    server.store.apply({
      kind: 'Service',
      metadata: { namespace: 'shop', name: 'odd' },
      spec: { clusterIP: '10.96.1.9', ports: [{ port: 0 }] },
    });
    const timing = { ...hasty, compareMinMs: 1, compareMaxMs: 1, compareShareMax: 1 };
    const { converged, sink } = startSource(server, { timing });
    await converged();
    await until('compared', () => server.count('services', 'list') > 3);
    expect(sink.said().filter((text) => text.includes('shop/odd'))).toHaveLength(1);
  });
});

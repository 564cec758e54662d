import { describe, expect, it } from 'vitest';
import { type Resource, resources } from '../../../../src/state/change.ts';
import { serverVersion } from '../../../fake/api-server.ts';
import { until } from '../../until.ts';
import {
  asksProtobuf,
  blind,
  change,
  hasty,
  isGone,
  startCluster,
  startServer,
  startSource,
} from './setup.ts';

describe('KubernetesSource', () => {
  it('delivers the objects of the server, then reports each resource as complete once', async () => {
    const server = await startCluster();
    const { sink, converged, source } = startSource(server);
    expect(source.condition('services').silenceMs).toBeUndefined();
    await converged();
    expect([...sink.syncedResources].sort()).toEqual([...resources].sort());
    expect(sink.problems).toEqual([]);
    expect(sink.changes).toHaveLength(20 + 20 + 1 + 1);
    expect(source.condition('services').silenceMs).toBeLessThan(10_000);
  });

  it('delivers an object before the problems in it, so that an Event has its uid', async () => {
    const server = await startCluster(2);
    server.store.apply({
      kind: 'Service',
      metadata: { namespace: 'x', name: 'wrong' },
      spec: { clusterIP: '10.96.9.9', externalIPs: ['nowhere'], ports: [{ port: 80 }] },
    });
    const { sink, converged } = startSource(server);
    const known: boolean[] = [];
    sink.problem = () => known.push(sink.names().includes('service x/wrong'));
    await converged();
    expect(known).toEqual([true]);
  });

  it("requests kube-proxy's selectors and sends its user agent", async () => {
    const server = await startCluster(2);
    const { store } = server;
    store.apply({
      kind: 'Service',
      metadata: { namespace: 'x', name: 'headless' },
      spec: { clusterIP: 'None' },
    });
    store.apply({
      kind: 'Service',
      metadata: {
        namespace: 'x',
        name: 'other',
        labels: { 'service.kubernetes.io/service-proxy-name': 'other' },
      },
      spec: { clusterIP: '10.96.9.9' },
    });
    store.apply({
      kind: 'EndpointSlice',
      metadata: { namespace: 'x', name: 'h', labels: { 'service.kubernetes.io/headless': '' } },
      addressType: 'IPv4',
    });
    const { sink, converged } = startSource(server);
    await converged();
    expect(sink.names().filter((name) => name.includes('x/'))).toEqual([]);
    expect(sink.names()).not.toContain('node there');
    expect(server.lastHeaders['user-agent']).toBe('fairlead/test');
    expect(server.lastHeaders.accept).toBe(
      asksProtobuf
        ? 'application/vnd.kubernetes.protobuf, application/json;q=0.9'
        : 'application/json',
    );
  });

  it('reports the version of the server once known, and follows it', async () => {
    const server = await startServer();
    let [answer, asked]: [unknown, number] = ['<html>', 0];
    const get = (): unknown => {
      asked += 1;
      return answer;
    };
    Object.defineProperty(server, 'version', { get });
    /** Until the version is asked for again after this answer. */
    const answered = async (version: unknown): Promise<void> => {
      answer = version;
      const before = asked;
      await until('asked again', () => asked > before + 1);
    };
    const { source } = startSource(server, { timing: { ...hasty, probeMs: 20 } });
    expect(source.serverVersion()).toBeUndefined();
    await answered({ gitVersion: 36 });
    expect(source.serverVersion()).toBeUndefined();
    await answered(serverVersion('v1.35.4+k3s1'));
    const platform = 'linux/amd64';
    const gitVersion = 'v1.35.4+k3s1';
    expect(source.serverVersion()).toEqual({ gitVersion, major: '1', minor: '35', platform });
    await answered({ message: 'forbidden' });
    expect(source.serverVersion()?.gitVersion).toBe(gitVersion);
    await answered(serverVersion('v1.36.0'));
    expect(source.serverVersion()?.gitVersion).toBe('v1.36.0');
  });

  it('reports for how long each watch has been silent, except unavailable ones', async () => {
    const server = await startCluster(2);
    server.absent.add('servicecidrs');
    server.fault({ resource: 'services', fault: { kind: 'stall' } });
    const { sink, source } = startSource(server);
    await until('the others', () => sink.syncedResources.length === 3);
    // Bookmarks come every 100 ms.
    const silence = (resource: Resource) => source.condition(resource).silenceMs!;
    await until('a bookmark', () => silence('endpointslices') < silence('services') - 200);
    expect(source.condition('servicecidrs').silenceMs).toBeUndefined();
  });

  it('follows changes, creations and deletions', async () => {
    const server = await startCluster();
    const { sink, converged } = startSource(server);
    await converged();
    for (let i = 0; i < 10; i += 1) change(server, i);
    server.store.delete('services', 'shop/s3');
    server.store.delete('endpointslices', 'shop/s3-1');
    server.store.apply({
      kind: 'Node',
      metadata: { name: 'here', labels: { 'topology.kubernetes.io/zone': 'z' } },
    });
    await converged();
    server.store.delete('nodes', 'here');
    server.store.delete('servicecidrs', 'kubernetes');
    await converged();
    expect(sink.changes.filter(isGone).map(({ kind }) => kind)).toEqual(
      expect.arrayContaining(['service-gone', 'slice-gone', 'node-gone', 'service-cidr-gone']),
    );
    expect(sink.problems).toEqual([]);
  });

  it('treats a Service that no longer matches the selector as deleted, and adds it again later', async () => {
    const server = await startCluster(2);
    const { sink, converged } = startSource(server);
    await converged();
    const service = (labels: Record<string, string>) => ({
      kind: 'Service',
      metadata: { namespace: 'shop', name: 's0', labels },
      spec: { clusterIP: '10.96.1.0', ports: [{ port: 80 }] },
    });
    const { sink: second } = startSource(server, { proxyName: 'x' });
    server.store.apply(service({ 'service.kubernetes.io/service-proxy-name': 'x' }));
    await until('gone', () => !sink.state.has('service shop/s0'));
    await until('with the other', () => second.state.has('service shop/s0'));
    server.store.apply(service({}));
    await converged();
    await until('gone again', () => !second.state.has('service shop/s0'));
    expect(second.names().filter((name) => name.startsWith('service '))).toEqual([]);
  });

  it('lists in pages if the server rejects streaming lists', async () => {
    const server = await startCluster(20, { streamingLists: 'refused' });
    const { sink, converged } = startSource(server);
    await converged();
    for (const resource of resources) {
      server.disturb(resource, 'stall');
      server.disturb(resource, 'drop');
    }
    change(server, 1);
    server.store.compact();
    await until('the last page', () => server.count('endpointslices', 'page') === 2);
    await converged();
    // Twenty objects, seven a page; what the cache gives at first comes in one piece.
    expect(server.count('endpointslices', 'list')).toBe(2);
    expect(server.count('endpointslices', 'page')).toBe(2);
    expect(server.count('endpointslices', 'streaming-list')).toBe(1);
    expect(sink.changes.filter(isGone)).toEqual([]);
  });

  it('continues without ServiceCIDRs if they are not available, and finds them later', async () => {
    const server = await startCluster();
    server.absent.add('servicecidrs');
    let refused = 0;
    const { sink, converged } = startSource(server, {
      observer: (event) => {
        if (event.kind === 'exchange' && event.status === 404) refused += 1;
      },
    });
    await converged();
    await until('asked again', () => refused > 2);
    expect(sink.said()).toEqual([
      'servicecidrs watch: not available, continuing without it: the server could not find the requested resource',
    ]);
    server.absent.clear();
    await converged();
  });

  it('opens the next watch before the current one ends, and repeats nothing', async () => {
    const server = await startCluster(5);
    const timing = { ...hasty, watchSecondsMin: 30, watchSecondsMax: 30, overlapMs: 29_500 };
    const { sink, converged } = startSource(server, { timing });
    await converged();
    // It begins late, while the first one still brings news; then it must repeat all of that.
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const fault = { kind: 'held', released } as const;
    server.fault({ resource: 'endpointslices', verb: 'watch', fault });
    await until('asked', () => server.count('endpointslices', 'watch') === 1);
    expect(server.watching('endpointslices')).toBe(1);
    // The same object again and again: repeated, it would go back to what it was.
    for (let i = 0; i < 5; i += 1) change(server, i % 2);
    await until('news', () => sink.changes.length === 5 + 5 + 2 + 5);
    // From here on news can come through the second watch only.
    blind(server, 'endpointslices');
    release();
    change(server, 0);
    await converged();
    expect(sink.changes).toHaveLength(5 + 5 + 2 + 5 + 1);
    expect(sink.problems).toEqual([]);
  });
});

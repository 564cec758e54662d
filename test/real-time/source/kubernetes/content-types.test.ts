import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ContentTypes } from '../../../../src/source/kubernetes/content-types.ts';
import type { FakeApiServerOptions } from '../../../fake/api-server.ts';
import { until } from '../../until.ts';
import { change, startCluster, startSource, temporaryDirectory } from './setup.ts';

const protobuf = 'application/vnd.kubernetes.protobuf';
const json = 'application/json';

const accept = (contentType: string, acceptContentTypes = ''): string =>
  new ContentTypes({ contentType, acceptContentTypes }).accept;

describe('the Accept header', () => {
  it.each([
    ['protobuf, or else JSON, by default', protobuf, '', `${protobuf}, ${json};q=0.9`],
    ['JSON, where contentType says so', json, '', json],
    ['JSON, where contentType is one that cannot be read', 'application/cbor', '', json],
    ['what acceptContentTypes says', json, `${protobuf},${json}`, `${protobuf}, ${json}`],
    ['protobuf alone, if that is said', json, protobuf, protobuf],
    ['of several those that can be read', protobuf, `application/yaml, ${json}`, json],
    ['JSON, if none of them can be read', protobuf, 'application/yaml', json],
  ])('is %s', (_what, contentType, acceptContentTypes, expected) => {
    expect(accept(contentType, acceptContentTypes)).toBe(expected);
  });

  it('is JSON after protobuf was rejected, until the connection is lost; this is reported once', () => {
    const told: string[] = [];
    const types = new ContentTypes(
      { contentType: protobuf, acceptContentTypes: '' },
      (reason) => void told.push(reason),
    );
    expect(types.refuses(protobuf, 404)).toBe(false);
    expect(types.refuses(protobuf, 406)).toBe(true);
    // Another request was under way, too.
    expect(types.refuses(protobuf, 406)).toBe(true);
    expect(types.accept).toBe(json);
    expect(types.refuses(json, 406)).toBe(false);
    types.lost();
    expect(types.accept).toBe(`${protobuf}, ${json};q=0.9`);
    expect(types.refuses(types.accept, 415)).toBe(true);
    expect(told).toEqual([
      'it answers with status 406 where protobuf is asked for: JSON is used, which costs more',
    ]);
  });
});

describe('an answer', () => {
  it.each([
    [`${protobuf};stream=watch`, 'protobuf'],
    [protobuf, 'protobuf'],
    [json, 'json'],
    ['application/json;charset=utf-8', 'json'],
    ['text/html', 'json'],
    [undefined, 'json'],
  ])('of type %s is read as %s', (type, form) => {
    const types = new ContentTypes({ contentType: protobuf, acceptContentTypes: '' });
    expect(types.formOf(type)).toBe(form);
  });
});

const contentTypes = { contentType: protobuf, acceptContentTypes: '' };

describe('a server', () => {
  it.each<[string, FakeApiServerOptions, readonly string[]]>([
    ['that gives protobuf is read, and nothing said', {}, []],
    ['that refuses protobuf is read', { protobuf: 'refused' }, ['it answers with status 406']],
    ['that answers in JSON all the same is read', { protobuf: 'ignored' }, ['it answers in JSON']],
  ])('%s', async (_what, options, said) => {
    const server = await startCluster(20, options);
    const { sink, converged } = startSource(server, { contentTypes });
    await converged();
    change(server, 1);
    await converged();
    server.disturb('endpointslices', 'drop');
    change(server, 2);
    await converged();
    expect(sink.lists.filter(({ method }) => method !== 'streaming')).toEqual([]);
    expect(sink.problems.filter(({ subject }) => subject === 'the API server')).toEqual(
      said.map((what) => ({
        subject: 'the API server',
        field: undefined,
        reason: `${what} where protobuf is asked for: JSON is used, which costs more`,
      })),
    );
  });

  it('reports its version to a client that accepts only protobuf', async () => {
    const server = await startCluster();
    const only = { contentType: protobuf, acceptContentTypes: protobuf };
    const { source, converged } = startSource(server, { contentTypes: only });
    await converged();
    await until('its version', () => source.serverVersion()?.gitVersion === 'v1.36.2');
  });
});

describe('a compressed streaming list', () => {
  it.each([protobuf, json])('is read with the changes that follow it, as %s', async (type) => {
    const server = await startCluster(200, { streamCompression: 'gzip' });
    const { sink, converged } = startSource(server, {
      contentTypes: { contentType: type, acceptContentTypes: '' },
    });
    await converged();
    for (const i of [1, 2, 3]) {
      // Each is a member of its own in the gzip file, and none is held back.
      change(server, i);
      await converged();
    }
    expect(server.compressed).toBeGreaterThanOrEqual(4);
    expect(server.count('services', 'streaming-list')).toBe(1);
    expect(sink.problems).toEqual([]);
    expect(sink.lists.map(({ method, result }) => `${method} ${result}`)).toEqual(
      sink.lists.map(() => 'streaming complete'),
    );
  });

  it('has at most a third of the bytes', async () => {
    const sizes: number[] = [];
    for (const options of [{}, { streamCompression: 'gzip' }] as const) {
      const server = await startCluster(200, { ...options, bookmarkMs: 'never' });
      await startSource(server, { contentTypes }).converged();
      sizes.push(server.sentBytes);
    }
    expect(sizes[1]! / sizes[0]!).toBeLessThan(0.33);
  });

  it.each(['cut', 'drop'] as const)('that ends by a %s is listed or watched again', async (how) => {
    const server = await startCluster(20, { streamCompression: 'gzip' });
    const { converged } = startSource(server, { contentTypes });
    await converged();
    server.disturb('endpointslices', how);
    change(server, 1);
    await converged();
    change(server, 2);
    await converged();
  });

  it('is not requested if the kubeconfig disables compression', async () => {
    const server = await startCluster(20, { streamCompression: 'gzip' });
    const kubeconfigPath = join(
      temporaryDirectory({
        config: JSON.stringify({
          'current-context': 'c',
          contexts: [{ name: 'c', context: { cluster: 'c' } }],
          clusters: [{ name: 'c', cluster: { server: server.url, 'disable-compression': true } }],
        }),
      }),
      'config',
    );
    const { converged } = startSource(server, { contentTypes, kubeconfigPath, masterUrl: '' });
    await converged();
    expect(server.compressed).toBe(0);
    expect(server.lastHeaders['accept-encoding']).toBeUndefined();
  });
});

describe('a compressed list', () => {
  const long = 'x'.repeat(100_000);

  it.each([protobuf, json])('is read, as %s', async (contentType) => {
    const server = await startCluster(20, { streamingLists: 'refused' });
    for (const name of ['a', 'b']) {
      const metadata = { namespace: 'shop', name, annotations: { long } };
      const spec = { clusterIP: '10.96.2.1', ports: [{ port: 80 }] };
      server.store.apply({ kind: 'Service', metadata, spec });
    }
    const { sink, converged } = startSource(server, {
      contentTypes: { contentType, acceptContentTypes: '' },
    });
    await converged();
    expect(sink.names()).toContain('service shop/b');
    expect(server.compressed).toBeGreaterThan(0);
    expect(sink.problems).toEqual([]);
  });
});

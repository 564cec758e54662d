import { describe, expect, it } from 'vitest';
import { ContentTypes } from '../../../../src/source/kubernetes/content-types.ts';
import type { FakeApiServerOptions } from '../../../fake/api-server.ts';
import { change, populate, startServer, startSource } from './setup.ts';

const protobuf = 'application/vnd.kubernetes.protobuf';
const json = 'application/json';

const accept = (contentType: string, acceptContentTypes = ''): string =>
  new ContentTypes({ contentType, acceptContentTypes }).accept;

describe('what is asked for', () => {
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

  it('is JSON once protobuf was refused, until the connection is lost; one word is said', () => {
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
    const server = await startServer(options);
    populate(server);
    const { sink, converged } = startSource(server, { contentTypes });
    await converged();
    change(server, 1);
    await converged();
    server.disturb('endpointslices', 'drop');
    change(server, 2);
    await converged();
    expect(sink.lists.filter(({ way }) => way !== 'streaming')).toEqual([]);
    expect(sink.problems.filter(({ subject }) => subject === 'the API server')).toEqual(
      said.map((what) => ({
        subject: 'the API server',
        field: undefined,
        reason: `${what} where protobuf is asked for: JSON is used, which costs more`,
      })),
    );
  });

  it('says its version to one who reads protobuf alone', async () => {
    const server = await startServer();
    populate(server);
    const only = { contentType: protobuf, acceptContentTypes: protobuf };
    const { source, converged } = startSource(server, { contentTypes: only });
    await converged();
    await expect.poll(() => source.serverVersion()?.gitVersion).toBe('v1.36.2');
  });
});

describe('a list that comes compressed', () => {
  const long = 'x'.repeat(100_000);

  it.each([protobuf, json])('is read, as %s', async (contentType) => {
    const server = await startServer({ streamingLists: 'refused' });
    populate(server);
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

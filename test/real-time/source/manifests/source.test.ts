import {
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { ManifestSource } from '../../../../src/source/manifests/source.ts';
import { resources } from '../../../../src/state/change.ts';
import { Recorder } from '../../../unit/source/recorder.ts';
import { until } from '../../until.ts';

const stops: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

const service = (name: string, clusterIP: string) => `apiVersion: v1
kind: Service
metadata: {name: ${name}}
spec: {clusterIP: ${clusterIP}, ports: [{port: 80}]}
`;

const slice = (name: string, ...addresses: string[]) => `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ${name}-1, labels: {kubernetes.io/service-name: ${name}}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [${addresses.map((address) => `{addresses: [${address}]}`).join(', ')}]
`;

function directory(files: Record<string, string>) {
  const path = mkdtempSync(join(tmpdir(), 'fairlead-manifests-'));
  stops.push(async () => rmSync(path, { recursive: true, force: true }));
  const write = (name: string, text: string) => writeFileSync(join(path, name), text);
  for (const [name, text] of Object.entries(files)) write(name, text);
  return { path, write, at: (name: string) => join(path, name) };
}

/** Runs until the test ends; resolves once everything was delivered for the first time. */
async function run(path: string, rescanMs?: number) {
  const sink = new Recorder();
  const source = new ManifestSource({
    directory: path,
    nodeName: 'here',
    ...(rescanMs === undefined ? {} : { rescanMs }),
  });
  const controller = new AbortController();
  const ended = source.run(sink, controller.signal);
  stops.unshift(async () => {
    controller.abort();
    await ended;
  });
  await Promise.race([until('synced', () => sink.syncedResources.length > 0), ended]);
  return { sink, source };
}

const clusterIP = (sink: Recorder, name: string) => {
  const change = sink.state.get(`service default/${name}`);
  return change?.kind === 'service' ? change.service.clusterIPs[0]!.bytes.join('.') : undefined;
};

/** Long enough for the source to have seen, and settled on, what was written. */
const settle = () => new Promise((resolve) => setTimeout(resolve, 250));

describe('ManifestSource', () => {
  it('reads YAML streams, JSON, lists and all four kinds', async () => {
    const { path } = directory({
      'a.yaml': `# web\n---\n${service('web', '10.96.0.1')}---\n${slice('web', '10.0.0.1')}...\n`,
      'b.json': JSON.stringify({
        apiVersion: 'v1',
        kind: 'List',
        items: [
          { apiVersion: 'v1', kind: 'Node', metadata: { name: 'here' } },
          { apiVersion: 'v1', kind: 'Node', metadata: { name: 'there' } },
          {
            apiVersion: 'networking.k8s.io/v1',
            kind: 'ServiceCIDR',
            metadata: { name: 'kubernetes' },
            spec: { cidrs: ['10.96.0.0/16'] },
          },
        ],
      }),
      'c.yml': `apiVersion: v1
kind: ServiceList
items:
- metadata: {name: api, namespace: shop}
  spec: {clusterIP: 10.96.0.2, ports: [{port: 443}]}
`,
      'notes.txt': 'not read',
      '.hidden.yaml': 'not: [read',
    });
    const { sink } = await run(path);
    expect(sink.names()).toEqual([
      'node here',
      'service default/web',
      'service shop/api',
      'service-cidr kubernetes',
      'slice default/web-1',
    ]);
    expect(sink.syncedResources).toEqual([...resources]);
    expect(sink.problems).toEqual([]);
  });

  it('sets the empty name for unnamed slice ports, as an API server does', async () => {
    const { sink } = await run(directory({ 'a.yaml': slice('web', '10.0.0.1') }).path);
    expect(sink.state.get('slice default/web-1')).toMatchObject({
      slice: { ports: [{ name: '', port: 8080 }] },
    });
  });

  it('applies changed, new and deleted files', async () => {
    const { path, write, at } = directory({ 'a.yaml': service('web', '10.96.0.1') });
    const { sink } = await run(path);
    write('a.yaml', service('web', '10.96.0.9'));
    await until('changed', () => clusterIP(sink, 'web') === '10.96.0.9');
    write('b.yaml', service('api', '10.96.0.2'));
    await until('added', () => clusterIP(sink, 'api') === '10.96.0.2');
    unlinkSync(at('a.yaml'));
    await until('gone', () => !sink.state.has('service default/web'));
    expect(sink.names()).toEqual(['service default/api']);
    expect(sink.problems).toEqual([]);
  });

  it('reports nothing for unchanged objects', async () => {
    const both = (second: string) => `${service('web', '10.96.0.1')}---\n${service('api', second)}`;
    const { path, write } = directory({ 'a.yaml': both('10.96.0.2') });
    const { sink } = await run(path);
    sink.changes.length = 0;
    write('a.yaml', `# a comment\n${both('10.96.0.3')}`);
    await until('changed', () => clusterIP(sink, 'api') === '10.96.0.3');
    expect(sink.changes).toHaveLength(1);
  });

  it('reports a broken document with its line, keeps its last valid content, and reads the others', async () => {
    const { path, write } = directory({
      'a.yaml': service('web', '10.96.0.1'),
      'b.yaml': service('api', '10.96.0.2'),
    });
    const { sink } = await run(path);
    write('a.yaml', `${service('other', '10.96.0.9')}---\nkind: Service\nmetadata: {name: [}\n`);
    write('b.yaml', service('api', '10.96.0.3'));
    await until('reported', () => sink.problems.length > 0);
    await until('b read', () => clusterIP(sink, 'api') === '10.96.0.3');
    await until('the rest read', () => clusterIP(sink, 'other') === '10.96.0.9');
    expect(sink.problems).toHaveLength(1);
    expect(sink.problems[0]!.subject).toBe('a.yaml:7');
    expect(sink.problems[0]!.reason).toMatch(/its last good content stays in force$/);
    expect(clusterIP(sink, 'web')).toBe('10.96.0.1');
    write('a.yaml', service('web', '10.96.0.9'));
    await until('mended', () => clusterIP(sink, 'web') === '10.96.0.9');
    expect(sink.problems).toHaveLength(1);
  });

  it('rejects bytes that are not UTF-8', async () => {
    const { path, at } = directory({});
    writeFileSync(at('a.yaml'), Buffer.from('kind: Service\nname: "\xff"\n', 'latin1'));
    const { sink } = await run(path);
    expect(sink.said()).toEqual(['a.yaml:2: is not UTF-8 text']);
  });

  it('survives a YAML bomb', async () => {
    const levels = Array.from({ length: 12 }, (_, i) =>
      i === 0
        ? 'a0: &a0 [x, x]'
        : `a${i}: &a${i} [${Array(9)
            .fill(`*a${i - 1}`)
            .join(', ')}]`,
    );
    const { sink } = await run(directory({ 'bomb.yaml': levels.join('\n') }).path);
    expect(sink.problems.map(({ subject }) => subject)).toEqual(['bomb.yaml:1']);
  });

  it('keeps the old version of one object that became unusable, and uses the rest', async () => {
    const { path, write } = directory({
      'a.yaml': `${service('web', '10.96.0.1')}---\n${service('api', '10.96.0.2')}`,
    });
    const { sink } = await run(path);
    write('a.yaml', `${service('web', '10.96.0.')}---\n${service('api', '10.96.0.3')}`);
    await until('changed', () => clusterIP(sink, 'api') === '10.96.0.3');
    expect(clusterIP(sink, 'web')).toBe('10.96.0.1');
    expect(sink.said()).toEqual([
      'Service default/web (a.yaml:1): spec.clusterIP is not an IP address: "10.96.0."',
    ]);
  });

  it('reports ignored kinds once per file', async () => {
    const { path } = directory({
      'a.yaml': `apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n---
apiVersion: v1\nkind: Endpoints\nmetadata: {name: x}\n---
apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: x}\n---
${service('web', '10.96.0.1')}`,
    });
    const { sink } = await run(path);
    expect(sink.names()).toEqual(['service default/web']);
    expect(sink.said()).toEqual([
      'a.yaml: has objects of kinds that are not used: Deployment (apps/v1), Endpoints (v1), ' +
        'Service (serving.knative.dev/v1); write an EndpointSlice in place of Endpoints',
    ]);
  });

  it('reports a Service without clusterIP', async () => {
    const { sink } = await run(directory({ 'a.yaml': service('web', '""') }).path);
    expect(sink.said()).toEqual([
      'Service default/web (a.yaml:1): spec.clusterIP is missing: give one, this proxy does not allocate addresses',
    ]);
  });

  it('uses the first file by name if two contain the same object, and falls back to the other', async () => {
    const { path, at, write } = directory({
      'b.yaml': service('web', '10.96.0.2'),
      'a.yaml': service('web', '10.96.0.1'),
    });
    const { sink } = await run(path);
    expect(clusterIP(sink, 'web')).toBe('10.96.0.1');
    expect(sink.said()).toEqual([
      'b.yaml: services/default/web is in a.yaml too; the one there counts',
    ]);
    write('c.yaml', service('api', '10.96.0.3'));
    await until('added', () => clusterIP(sink, 'api') !== undefined);
    expect(sink.problems).toHaveLength(1);
    unlinkSync(at('a.yaml'));
    await until('fell back', () => clusterIP(sink, 'web') === '10.96.0.2');
    expect(sink.changes.some(({ kind }) => kind === 'service-gone')).toBe(false);
  });

  it('uses the first of two equal names in one file', async () => {
    const { sink } = await run(
      directory({ 'a.yaml': `${service('web', '10.96.0.1')}---\n${service('web', '10.96.0.2')}` })
        .path,
    );
    expect(clusterIP(sink, 'web')).toBe('10.96.0.1');
    expect(sink.said()).toEqual([
      'a.yaml:6: services/default/web is in this file twice; the first one counts',
    ]);
  });

  it('follows an atomic rename and does not read the temporary file', async () => {
    const { path, write, at } = directory({ 'a.yaml': service('web', '10.96.0.1') });
    const { sink } = await run(path);
    write('.a.yaml.swp', 'broken: [');
    write('a.yaml~', 'broken: [');
    write('a.yaml.tmp', service('web', '10.96.0.9'));
    renameSync(at('a.yaml.tmp'), at('a.yaml'));
    await until('changed', () => clusterIP(sink, 'web') === '10.96.0.9');
    expect(sink.problems).toEqual([]);
  });

  it('ignores an empty file, as a full disk leaves it', async () => {
    const { path, write, at } = directory({ 'a.yaml': service('web', '10.96.0.1') });
    const { sink } = await run(path);
    write('a.yaml', '');
    await until('told', () => sink.problems.length > 0);
    const reason = 'is empty; its last good content stays in force';
    expect(sink.problems).toEqual([{ subject: 'a.yaml', field: undefined, reason }]);
    expect(clusterIP(sink, 'web')).toBe('10.96.0.1');
    write('a.yaml', service('web', '10.96.0.2'));
    await until('changed', () => clusterIP(sink, 'web') === '10.96.0.2');
    rmSync(at('a.yaml'));
    await until('gone', () => sink.state.size === 0);
  });

  it('follows the replaced symbolic links of a mounted ConfigMap', async () => {
    const { path, at } = directory({});
    const version = (name: string, ip: string) => {
      mkdirSync(at(name));
      writeFileSync(join(at(name), 'a.yaml'), service('web', ip));
      symlinkSync(name, at('..data_tmp'));
      renameSync(at('..data_tmp'), at('..data'));
    };
    version('..2026_1', '10.96.0.1');
    symlinkSync('..data/a.yaml', at('a.yaml'));
    const { sink } = await run(path);
    expect(clusterIP(sink, 'web')).toBe('10.96.0.1');
    version('..2026_2', '10.96.0.2');
    await until('swapped', () => clusterIP(sink, 'web') === '10.96.0.2');
  });

  it('finds by its rescan changes that inotify does not report', async () => {
    const elsewhere = directory({ 'target.yaml': service('web', '10.96.0.1') });
    const { path, at } = directory({});
    symlinkSync(elsewhere.at('target.yaml'), at('a.yaml'));
    const { sink } = await run(path, 50);
    elsewhere.write('target.yaml', service('web', '10.96.0.2'));
    await until('rescanned', () => clusterIP(sink, 'web') === '10.96.0.2');
  });

  it('keeps everything while the directory is missing, and follows it when it is back', async () => {
    const { path, write } = directory({ 'a.yaml': service('web', '10.96.0.1') });
    const { sink } = await run(path, 50);
    renameSync(path, `${path}.away`);
    await until('reported', () => sink.problems.length > 0);
    await settle();
    expect(sink.said()).toEqual([`${path}: does not exist; what was read last stays in force`]);
    expect(sink.names()).toEqual(['service default/web']);
    mkdirSync(path);
    write('a.yaml', service('web', '10.96.0.2'));
    rmSync(`${path}.away`, { recursive: true });
    await until('back', () => clusterIP(sink, 'web') === '10.96.0.2');
    write('a.yaml', service('web', '10.96.0.3'));
    await until('changed', () => clusterIP(sink, 'web') === '10.96.0.3');
  });

  it('rejects if the directory does not exist or is not a directory', async () => {
    const { path, at } = directory({ 'a.yaml': '' });
    const start = (directory: string) =>
      new ManifestSource({ directory, nodeName: 'here' }).run(
        new Recorder(),
        new AbortController().signal,
      );
    await expect(start(join(path, 'none'))).rejects.toThrow(
      `manifests directory ${join(path, 'none')}: does not exist`,
    );
    await expect(start(at('a.yaml'))).rejects.toThrow(/: is not a directory$/);
  });

  it('reads a large file in parts, so that the event loop is not blocked', async () => {
    const endpoints = Array.from({ length: 250 }, (_, i) => `10.0.${i}.1`);
    const documents = Array.from({ length: 40 }, (_, i) => slice(`s${i}`, ...endpoints));
    const { path } = directory({ 'large.yaml': documents.join('---\n') });
    let turns = 0;
    const clock = setInterval(() => {
      turns += 1;
    }, 1);
    const { sink } = await run(path);
    clearInterval(clock);
    expect(sink.state.size).toBe(40);
    expect(turns).toBeGreaterThan(5);
  });

  it('reports how long ago it last read', async () => {
    const { path } = directory({});
    const source = new ManifestSource({ directory: path, nodeName: 'here' });
    expect(source.condition('services').silenceMs).toBeUndefined();
    const running = await run(path);
    expect(running.source.condition('services').silenceMs).toBeGreaterThanOrEqual(0);
  });
});

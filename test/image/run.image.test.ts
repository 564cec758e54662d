/** The image, made and run with exactly the security context that our DaemonSets ask for. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { V1Container } from '@kubernetes/client-node';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Place, temporaryDirectory, until } from '../process/program.ts';
import { containerOf } from '../unit/deploy/manifests.ts';
import { type Running, runContainer } from './bundle.ts';
import { type Image, makeImage, unpackImage } from './image.ts';

const folder = mkdtempSync(join(tmpdir(), 'fairlead-image-test-'));
/** Compressing takes its time where the machine is busy. */
const imageMs = 300_000;
let made: ReturnType<typeof makeImage>;
let image: Image;

beforeAll(() => {
  made = makeImage();
  image = unpackImage(made.archive, folder);
}, imageMs);
afterAll(() => rmSync(folder, { recursive: true }));

/** All paths in it. */
function files(): string[] {
  return readdirSync(image.root, { recursive: true }) as string[];
}

/** Runs it on a node that has its Services from a directory, since there is no API server. */
function run(place: Place, container: V1Container, configFolder = dirname(place.config)): Running {
  const lock = join(temporaryDirectory(), 'xtables.lock');
  writeFileSync(lock, '');
  return runContainer({
    image,
    container,
    namespace: place.namespace,
    mounts: {
      '/var/lib/kube-proxy': configFolder,
      '/manifests': place.manifests,
      '/run/xtables.lock': lock,
    },
    extraArgs: ['--manifests=/manifests'],
  });
}

test(
  'the same sources make the same bytes',
  () => {
    expect(makeImage().sum).toBe(made.sum);
  },
  imageMs,
);

test('it holds Node, libraries and Fairlead, and nothing to work with', () => {
  const programs = files().filter((path) => /(^|\/)s?bin\/./.test(path));
  const expected = ['fairlead', 'kube-proxy', 'node'].map((name) => `usr/local/bin/${name}`);
  expect(programs.sort()).toEqual(expected);
  expect(files().filter((path) => /\.map$|(^|\/)(apt|dpkg|node_modules)(\/|$)/.test(path))).toEqual(
    [],
  );
});

test('it says what it holds, and has the licences of all that', () => {
  const papers = join(image.root, 'usr/share/doc/fairlead');
  for (const paper of ['LICENSE', 'NOTICE']) {
    expect(readFileSync(join(papers, paper), 'utf8')).toBe(readFileSync(paper, 'utf8'));
  }
  const bom = JSON.parse(readFileSync(join(papers, 'sbom.cdx.json'), 'utf8'));
  const component = { type: 'container', name: 'fairlead' };
  expect(bom).toMatchObject({ bomFormat: 'CycloneDX', metadata: { component } });
  const parts = bom.components as { name: string; purl: string }[];
  const bare = parts.filter(({ name, purl }) => {
    const kind = purl.startsWith('pkg:deb/') ? 'debian' : 'npm';
    return !files().some((path) => path.includes(`/${kind}/${name}/`));
  });
  expect(bare).toEqual([]);
  expect(image.labels).toMatchObject({ 'org.opencontainers.image.licenses': 'Apache-2.0' });
});

test.each(['kubeadm.yaml', 'kubeadm-hardened.yaml'])('%s: a Service is served', async (name) => {
  const place = await Place.make();
  const init = containerOf(name, 'init');
  if (init !== undefined) {
    const prepared = run(place, init);
    expect(await prepared.exitCode, prepared.output()).toBe(0);
    expect(prepared.output()).toContain('System initialized');
    expect(await place.ruleset()).toBe('');
  }
  const running = run(place, containerOf(name, 'fairlead')!);
  await place.serves('pod-a', 'pod-b');
  await until(async () => (await place.ask('/readyz')).status === 200, 'it is ready');
  place.apply(['pod-b']);
  await place.serves('pod-b');
  running.stop();
  expect(await running.exitCode, running.output()).toBe(0);
  expect(running.output()).not.toMatch(/"level":"(warn|error)"/);
  await place.serves('pod-b');
});

test('without CAP_NET_ADMIN it says so in one sentence, and has done nothing', async () => {
  const place = await Place.make();
  const container = containerOf('kubeadm-hardened.yaml', 'fairlead')!;
  const capabilities = { drop: ['ALL'] };
  const securityContext = { ...container.securityContext, capabilities };
  const running = run(place, { ...container, securityContext });
  expect(await running.exitCode).toBe(1);
  expect(running.output().trim().split('\n').at(-1)).toContain('CAP_NET_ADMIN is needed: ');
  expect(running.output()).not.toMatch(/^ +at /m);
  expect(await place.ruleset()).toBe('');
});

test('without the key config.conf in the ConfigMap it says which file is missing', async () => {
  const place = await Place.make();
  const container = containerOf('kubeadm.yaml', 'fairlead')!;
  const running = run(place, container, temporaryDirectory());
  expect(await running.exitCode).toBe(1);
  expect(running.output()).toMatch(/\/var\/lib\/kube-proxy\/config\.conf/);
  expect(running.output()).not.toMatch(/^ +at /m);
  expect(await place.ruleset()).toBe('');
});

/** The image, made and run with exactly the security context that our DaemonSets ask for. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { V1Container, V1Pod, V1VolumeMount } from '@kubernetes/client-node';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { findAttached } from '../../src/connect-time/maps/attached.ts';
import { NODE_IP } from '../lab/addresses.ts';
import { askKernel } from '../lab/ask-kernel.ts';
import { canTranslate, makeConnectTimePlace } from '../lab/connect-time.ts';
import { becomesReady, Place, temporaryDirectory, until } from '../process/program.ts';
import { containerOf, objectOf, root } from '../unit/deploy/manifests.ts';
import { type Running, runContainer } from './bundle.ts';
import { type Image, makeImage, unpackImage } from './image.ts';

const folder = mkdtempSync(join(tmpdir(), 'fairlead-image-test-'));
/** Compressing takes its time where the machine is busy. */
const imageMs = 300_000;
let sums: string[];
let image: Image;

// At the same time: each mostly compresses on one processor.
beforeAll(async () => {
  const made = await Promise.all(['first', 'second'].map((name) => makeImage(join(folder, name))));
  sums = made.map(({ sum }) => sum);
  image = unpackImage(made[0]!.archive, folder);
}, imageMs);
afterAll(() => rmSync(folder, { recursive: true }));

/** All paths in it. */
function files(): string[] {
  return readdirSync(image.root, { recursive: true }) as string[];
}

/** Runs it on a node that has its Services from a directory, since there is no API server. */
function run(
  place: Place,
  container: V1Container,
  {
    configFolder = dirname(place.config),
    mounts = {},
    extraArgs = ['--manifests=/manifests'],
    image: its = image,
  }: {
    readonly image?: Image;
    readonly configFolder?: string;
    readonly mounts?: Readonly<Record<string, string>>;
    readonly extraArgs?: readonly string[];
  } = {},
): Running {
  const sysctls = '/host/proc/sys/net';
  const hasSysctls = container.volumeMounts?.some(({ mountPath }) => mountPath === sysctls);
  const lock = join(temporaryDirectory(), 'xtables.lock');
  writeFileSync(lock, '');
  return runContainer({
    image: its,
    container,
    namespace: place.namespace,
    mounts: {
      '/var/lib/kube-proxy': configFolder,
      '/manifests': place.manifests,
      '/run/xtables.lock': lock,
      ...(hasSysctls ? { [sysctls]: '/proc/sys/net' } : {}),
      ...mounts,
    },
    extraArgs,
  });
}

/** A place whose interfaces have the addresses of its Node. */
async function nodePlace(): Promise<Place> {
  const place = await Place.make();
  for (const address of Object.values(NODE_IP)) {
    await place.namespace.run('ip', ['address', 'add', address, 'dev', 'lo']);
  }
  return place;
}

test('the same sources make the same image, byte by byte', () => {
  expect(sums[1]).toBe(sums[0]);
});

test('the image contains Node, libraries and Fairlead, and no shell or tools', () => {
  const programs = files().filter((path) => /(^|\/)s?bin\/./.test(path));
  const local = ['fairlead', 'kube-proxy', 'node'].map((name) => `usr/local/bin/${name}`);
  expect(programs.sort()).toEqual(['usr/bin/kube-proxy', ...local]);
  expect(files()).toContain('go-runner');
  expect(files().filter((path) => /\.map$|(^|\/)(apt|dpkg|node_modules)(\/|$)/.test(path))).toEqual(
    [],
  );
});

test('the image lists its contents, with all licences', () => {
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

test.each(['kubeadm.yaml', 'kubeadm-hardened.yaml'])(
  '%s: a Service is served, and sysctls are set',
  async (name) => {
    const place = await nodePlace();
    const conntrack = { maxPerCore: 0, tcpEstablishedTimeout: '1h' };
    place.configure({ clusterCIDR: '10.244.0.0/16,fd00:244::/40', conntrack });
    const init = containerOf(name, 'init');
    if (init !== undefined) {
      const prepared = run(place, init);
      expect(await prepared.exitCode, prepared.output()).toBe(0);
      expect(prepared.output()).toContain('System initialized');
      expect(await place.ruleset()).toBe('');
    }
    const running = run(place, containerOf(name, 'fairlead')!);
    await place.serves('pod-a', 'pod-b');
    await becomesReady(place.namespace);
    place.apply(['pod-b']);
    await place.serves('pod-b');
    running.stop();
    expect(await running.exitCode, running.output()).toBe(0);
    const trouble = running
      .output()
      .split('\n')
      .filter((line) => /"level":"(warn|error)"/.test(line));
    expect(trouble).toEqual([]);
    const timeout = '/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established';
    expect((await place.namespace.run('cat', [timeout])).trim()).toBe('3600');
    await place.serves('pod-b');
  },
);

test('a pod of kops, which starts /go-runner, has the log in a file, too', async () => {
  const place = await nodePlace();
  const file = '/var/log/kube-proxy.log';
  const log = join(temporaryDirectory(), 'kube-proxy.log');
  writeFileSync(log, '', { mode: 0o400 });
  const runner = ['/go-runner', `--log-file=${file}`, '--also-stdout', '--redirect-stderr=true'];
  const started = { ...image, entrypoint: [...runner, '/usr/local/bin/kube-proxy'] };
  const container = containerOf('kubeadm.yaml', 'fairlead')!;
  const written = { name: 'log', mountPath: file };
  const volumeMounts = [...container.volumeMounts!, written];
  const options = { image: started, mounts: { [file]: log } };
  const running = run(place, { ...container, volumeMounts }, options);
  await place.serves('pod-a', 'pod-b');
  running.stop();
  expect(await running.exitCode, running.output()).toBe(0);
  expect(running.output()).toContain('Using nftables Proxier');
  expect(readFileSync(log, 'utf8')).toBe(running.output());
});

test('/usr/bin/kube-proxy starts, too, under the name kube-proxy', async () => {
  const place = await nodePlace();
  const started = { ...image, entrypoint: ['/usr/bin/kube-proxy', '--version'] };
  const container = { ...containerOf('kubeadm.yaml', 'fairlead')!, args: [] };
  const running = run(place, container, { image: started, extraArgs: [] });
  expect(await running.exitCode, running.output()).toBe(0);
  expect(running.output()).toMatch(/^Kubernetes v\d/m);
});

test("a pod of `helm test` exits with the health of its node's Fairlead", async () => {
  const place = await nodePlace();
  const pod = objectOf<V1Pod>('everything.yaml', 'Pod');
  // The values of that pod name another port.
  const container = {
    ...pod.spec!.containers[0]!,
    args: ['status', '--server', '127.0.0.1:10249'],
  };
  const unreachable = run(place, container, { extraArgs: [] });
  expect(await unreachable.exitCode, unreachable.output()).toBe(3);
  const running = run(place, containerOf('kubeadm.yaml', 'fairlead')!);
  await place.serves('pod-a', 'pod-b');
  await becomesReady(place.namespace);
  const healthy = run(place, container, { extraArgs: [] });
  expect(await healthy.exitCode, healthy.output()).toBe(0);
  running.stop();
  expect(await running.exitCode, running.output()).toBe(0);
});

/** With what kustomize's component adds, which is what the chart's `connectTime: true` adds. */
function withConnectTime(container: V1Container): V1Container {
  const path = join(root, 'deploy/kustomize/components/connect-time/kustomization.yaml');
  const component = parse(readFileSync(path, 'utf8')) as { patches: { patch: string }[] };
  const added = parse(component.patches[0]!.patch) as { path: string; value: V1VolumeMount }[];
  const mounts = added.filter(({ path }) => path.endsWith('/volumeMounts/-'));
  const volumeMounts = [...(container.volumeMounts ?? []), ...mounts.map(({ value }) => value)];
  const { securityContext: context } = container;
  const capabilities = { drop: ['ALL'], add: ['NET_ADMIN', 'BPF'] };
  const securityContext = context?.privileged === true ? context : { ...context, capabilities };
  return { ...container, volumeMounts, securityContext };
}

test.skipIf(!canTranslate()).each(['kubeadm.yaml', 'kubeadm-hardened.yaml'])(
  '%s: connect-time programs end with the configuration; privileged, also where mounts go with it',
  async (name) => {
    const place = await nodePlace();
    const paths = makeConnectTimePlace();
    onTestFinished(() => paths.close());
    // As DirectoryOrCreate makes it. The hierarchy is the machine's, of which only the root will do:
    // with host, sockets of other network namespaces notice nothing.
    mkdirSync(paths.directory);
    const mounts = { '/host/bpf': paths.directory, '/host/cgroup': dirname(paths.cgroup) };
    const attached = () =>
      askKernel({ namespacePath: place.namespace.path }, async (kernel) => {
        const found = await findAttached(kernel, { directory: '/nowhere', cgroup: undefined });
        return found.kind === 'ours' ? found.programs.length : Number.NaN;
      });
    const main = containerOf(name, 'fairlead')!;
    const configure = (connectTime: 'off' | 'host') => place.configure({ connectTime });

    const init = containerOf(name, 'init');
    const ends = ['with the mounts', 'without the mounts'] as const;
    for (const end of ends.slice(0, init === undefined ? 2 : 1)) {
      configure('host');
      const running = run(place, withConnectTime(main), { mounts });
      await until(async () => (await attached()) === 6, 'programs are attached');
      expect(readdirSync(paths.directory)).not.toEqual([]);
      if (end === 'with the mounts') {
        configure('off');
        // Links are removed first, one by one, and then the pins of the maps.
        await until(async () => readdirSync(paths.directory).length === 0, 'pins are removed');
        expect(await attached()).toBe(0);
      }
      running.stop();
      expect(await running.exitCode, running.output()).toBe(0);
    }

    if (init !== undefined) return;
    configure('off');
    expect(await attached()).toBe(6);
    const next = run(place, main);
    const message = 'Detached connect-time programs that no process updates';
    await until(async () => next.output().includes(message), 'programs are detached');
    expect(await attached()).toBe(0);
    next.stop();
    expect(await next.exitCode, next.output()).toBe(0);
  },
  120_000,
);

test('without CAP_NET_ADMIN the image reports it in one sentence, and does nothing', async () => {
  const place = await nodePlace();
  const container = containerOf('kubeadm-hardened.yaml', 'fairlead')!;
  const capabilities = { drop: ['ALL'] };
  const securityContext = { ...container.securityContext, capabilities };
  const running = run(place, { ...container, securityContext });
  expect(await running.exitCode).toBe(1);
  expect(running.output().trim().split('\n').at(-1)).toContain('CAP_NET_ADMIN is needed: ');
  expect(running.output()).not.toMatch(/^ +at /m);
  expect(await place.ruleset()).toBe('');
});

test('without the key config.conf in the ConfigMap the image reports the missing file', async () => {
  const place = await nodePlace();
  const container = containerOf('kubeadm.yaml', 'fairlead')!;
  const running = run(place, container, { configFolder: temporaryDirectory() });
  expect(await running.exitCode).toBe(1);
  expect(running.output()).toMatch(/\/var\/lib\/kube-proxy\/config\.conf/);
  expect(running.output()).not.toMatch(/^ +at /m);
  expect(await place.ruleset()).toBe('');
});

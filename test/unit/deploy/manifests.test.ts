import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { V1DaemonSet, V1ObjectMeta } from '@kubernetes/client-node';
import { describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { image } from '../../../scripts/image/settings.ts';
import { loadConfig } from '../../../src/config/load.ts';
import { containerOf, manifests, readManifest, root, unknownFields } from './manifests.ts';
import { problemsOf } from './schema.ts';

function read(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

describe.each(manifests)('%s', (name) => {
  it('a manifest has only known kinds and fields of the API', () => {
    expect(readManifest(name).flatMap(unknownFields)).toEqual([]);
    expect(containerOf(name, 'fairlead')).toBeDefined();
  });

  it('a manifest has arguments, and a configuration if any, that Fairlead accepts', () => {
    const map = readManifest(name).find(({ kind }) => kind === 'ConfigMap');
    const text = (map?.data as Record<string, string> | undefined)?.['config.conf'];
    const config =
      text ?? 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration';
    for (const of of ['init', 'fairlead'] as const) {
      const { args } = containerOf(name, of) ?? {};
      if (args === undefined) continue;
      const result = loadConfig(args, { readFile: () => Buffer.from(config) });
      expect(result).toMatchObject({ kind: of === 'init' ? 'init-only' : 'run' });
    }
  });

  it('a manifest names the API server if there is no kubeconfig of kubeadm', () => {
    const names = containerOf(name, 'fairlead')?.env?.map((entry) => entry.name);
    const hasOwnMap = readManifest(name).some(({ kind }) => kind === 'ConfigMap');
    expect(names?.includes('KUBERNETES_SERVICE_HOST')).toBe(hasOwnMap);
  });

  it('a manifest has a readiness probe on a path that kube-proxy does not answer', () => {
    const probe = containerOf(name, 'fairlead')?.readinessProbe;
    expect(probe?.httpGet).toEqual({ path: '/readyz', port: 10256 });
  });
});

it('the hardened manifest drops every privilege but one, and its init container mounts sysctls', () => {
  const hardened = {
    privileged: false,
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    seccompProfile: { type: 'RuntimeDefault' },
    capabilities: { drop: ['ALL'], add: ['NET_ADMIN'] },
  };
  const [init, main] = (['init', 'fairlead'] as const).map((name) =>
    containerOf('kubeadm-hardened.yaml', name),
  );
  const seLinuxOptions = { type: 'spc_t' };
  expect(init?.securityContext).toEqual({ ...hardened, seLinuxOptions });
  expect(main?.securityContext).toEqual(hardened);
  const sysctls = { name: 'sysctls', mountPath: '/host/proc/sys/net' };
  expect(init?.volumeMounts).toEqual([...main!.volumeMounts!, sysctls]);
});

it("kustomize's overlay makes the same changes as the chart's values", () => {
  const patch = parse(read('deploy/kustomize/overlays/hardened/hardened.yaml')) as V1DaemonSet;
  const { containers, initContainers = [] } = patch.spec!.template.spec!;
  for (const container of [...initContainers, ...containers]) {
    const wanted = containerOf('kubeadm-hardened.yaml', container.name as 'init' | 'fairlead');
    expect(wanted).toMatchObject(container);
    if (container.name === 'init') expect(container).toEqual(wanted);
  }
});

interface Addition {
  readonly op: string;
  readonly path: string;
  readonly value: unknown;
}

it("kustomize's component mounts what connect-time translation needs", () => {
  const component = parse(read('deploy/kustomize/components/connect-time/kustomization.yaml'));
  const set = readManifest('kubeadm.yaml').find(({ kind }) => kind === 'DaemonSet')!;
  for (const { op, path, value } of parse(component.patches[0].patch) as Addition[]) {
    expect(op).toBe('add');
    const list = path.split('/').slice(1, -1);
    const at = list.reduce((part: unknown, name) => (part as Record<string, unknown>)[name], set);
    (at as unknown[]).push(value);
  }
  expect(problemsOf(set, 'V1DaemonSet')).toEqual([]);
  const { containers, volumes = [] } = (set as unknown as V1DaemonSet).spec!.template.spec!;
  const { name, volumeMounts = [] } = containers[0]!;
  expect(name).toBe('fairlead');
  const hostPath = (name: string) => volumes.find((one) => one.name === name)?.hostPath?.path;
  const mounted = volumeMounts.map(({ mountPath, name }) => [mountPath, hostPath(name)]);
  expect(mounted).toContainEqual(['/host/bpf', '/sys/fs/bpf/fairlead']);
  expect(mounted).toContainEqual(['/host/cgroup', '/sys/fs/cgroup']);
});

it("kustomize's component for excluded pods permits listing and watching pods", () => {
  const folder = 'deploy/kustomize/components/excluded-pods';
  const { resources } = parse(read(`${folder}/kustomization.yaml`));
  const objects = parseAllDocuments(read(`${folder}/${resources[0]}`)).map((one) => one.toJS());
  const [role, binding] = objects;
  expect(problemsOf(role, 'V1ClusterRole')).toEqual([]);
  expect(problemsOf(binding, 'V1ClusterRoleBinding')).toEqual([]);
  const rules = [{ apiGroups: [''], resources: ['pods'], verbs: ['list', 'watch'] }];
  expect(role.rules).toEqual(rules);
  expect(binding.roleRef.name).toBe(role.metadata.name);
  const account = readManifest('kubeadm.yaml').find(({ kind }) => kind === 'ServiceAccount')!;
  const { name, namespace } = account.metadata as V1ObjectMeta;
  expect(binding.subjects).toEqual([{ kind: 'ServiceAccount', name, namespace }]);
});

it('the check of fields finds errors', () => {
  const set = { spec: { template: { spec: { containers: [{ name: 1, imagee: 'x' }] } } } };
  expect(problemsOf(set, 'V1DaemonSet')).toEqual([
    'spec.template.spec.containers[0].name: is no string',
    'spec.template.spec.containers[0].imagee: V1Container has no such field',
  ]);
});

it('the chart, the manifests and the package have the same version', () => {
  const { version } = JSON.parse(read('package.json')) as { version: string };
  const chart = parse(read('deploy/chart/Chart.yaml')) as Record<string, string>;
  expect(chart).toMatchObject({ version, appVersion: version });
  expect(containerOf('kubeadm.yaml', 'fairlead')?.image).toBe(image(version).reference);
});

it('both kinds of image start Node like bin/fairlead', () => {
  const launcher = read('bin/fairlead');
  const { env } = image('0');
  const options = env.find((entry) => entry.startsWith('NODE_OPTIONS='))!.slice(13);
  expect(launcher).toContain(`exec "$node" ${options} `);
  const malloc = env.filter((entry) => entry.startsWith('MALLOC_'));
  expect(malloc).toHaveLength(3);
  expect(launcher).toContain(`export ${malloc.join(' ')}`);
  const dockerfile = read('deploy/Dockerfile');
  for (const entry of env) expect(dockerfile).toContain(entry.replace(/=(.* .*)$/, '="$1"'));
});

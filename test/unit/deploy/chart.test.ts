/** What the chart renders for values that the manifests do not use (scripts/manifests). */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type {
  V1DaemonSet,
  V1ObjectMeta,
  V1Pod,
  V1Role,
  V1RoleBinding,
} from '@kubernetes/client-node';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { documentedValues } from '../../../scripts/chart-docs.ts';
import { loadConfig } from '../../../src/config/load.ts';
import { containerOf, objectOf, readManifest, rendered, root, unknownFields } from './manifests.ts';

const chart = join(root, 'deploy/chart');
const read = (name: string): string => readFileSync(join(chart, name), 'utf8');

describe.each(rendered)('%s', (name) => {
  const objects = readManifest(name);

  it('the chart has no field that the API does not have', () => {
    expect(objects.flatMap(unknownFields)).toEqual([]);
  });

  it('the chart has the recommended labels on each object, and a DaemonSet that selects its pods', () => {
    for (const { metadata } of objects) {
      expect(metadata).toMatchObject({
        labels: {
          'app.kubernetes.io/name': expect.any(String),
          'app.kubernetes.io/instance': expect.any(String),
          ...(name === 'everything.yaml' && { 'app.kubernetes.io/managed-by': 'Helm' }),
        },
      });
    }
    const { selector, template } = objectOf<V1DaemonSet>(name, 'DaemonSet').spec!;
    expect(template.metadata!.labels).toMatchObject(selector.matchLabels!);
    const tests = objects.filter(({ kind }) => kind === 'Pod') as unknown as V1Pod[];
    for (const { metadata } of tests) {
      expect(metadata!.labels).not.toMatchObject(selector.matchLabels!);
    }
  });
});

describe('the chart with everything.yaml', () => {
  const name = 'everything.yaml';
  const values = parse(read('ci/everything-values.yaml')) as Record<string, unknown>;

  it('uses every value that adds objects or fields', () => {
    const pathsIn = (value: unknown, path: string): string[] =>
      typeof value === 'object' && value !== null && !Array.isArray(value)
        ? Object.entries(value).flatMap(([key, inner]) => [
            ...pathsIn(inner, path === '' ? key : `${path}.${key}`),
            path,
          ])
        : [path];
    const used = new Set(pathsIn(values, ''));
    const shared = ['profile', 'connectTime', 'excludedPods', 'rbac.create', 'readinessProbe'];
    const defaults = ['serviceAccount.create', 'monitoring.metricsReachable', 'test.enabled'];
    const elsewhere = [...shared, ...defaults, 'openshift.securityContextConstraints'];
    const unused = documentedValues(read('values.yaml'))
      .filter(({ path, shown }) => shown !== undefined && !used.has(path))
      .map(({ path }) => path)
      .filter((path) => !elsewhere.includes(path) && path !== 'monitoring.podMonitor.relabelings');
    expect(unused).toEqual([]);
  });

  it('has an image by digest, and the additions of the values', () => {
    const { image, env, args, volumeMounts } = containerOf(name, 'fairlead')!;
    expect(image).toMatch(/^registry\.example\/net\/fairlead@sha256:[0-9a-f]{64}$/);
    expect(env).toContainEqual({ name: 'HTTPS_PROXY', value: 'http://proxy.example:3128' });
    expect(args).toContain('--v=4');
    expect(volumeMounts).toContainEqual(expect.objectContaining({ mountPath: '/etc/ssl/certs' }));
    const { spec, metadata } = objectOf<V1DaemonSet>(name, 'DaemonSet').spec!.template;
    expect(spec).toMatchObject({
      imagePullSecrets: [{ name: 'registry' }],
      initContainers: [{ name: 'wait' }],
      dnsPolicy: 'None',
      serviceAccountName: 'proxy',
      terminationGracePeriodSeconds: 10,
    });
    expect(metadata!.labels).toMatchObject({ team: 'network', mesh: 'none' });
    expect(metadata!.annotations).toMatchObject({ 'example.com/logs': 'keep' });
  });

  it('probes the ports of its configuration, which Fairlead accepts', () => {
    const { args, readinessProbe, livenessProbe, startupProbe } = containerOf(name, 'fairlead')!;
    const { data } = objectOf<{ data: Record<string, string> }>(name, 'ConfigMap');
    const result = loadConfig(args!, { readFile: () => Buffer.from(data['proxy.yaml']!) });
    expect(args).toContain('--config=/etc/fairlead/proxy.yaml');
    expect(result).toMatchObject({ kind: 'run' });
    if (result.kind !== 'run') return;
    const port = result.config.healthzBindAddress!.port;
    expect(readinessProbe?.httpGet?.port).toBe(port);
    expect(livenessProbe?.httpGet?.port).toBe(port);
    expect(startupProbe).toBeUndefined();
  });

  it('opens the port for readers that pods name, and gives people no right but to ask there', () => {
    const { args, ports } = containerOf(name, 'fairlead')!;
    expect(args).toContain('--read-bind-address=0.0.0.0:11251');
    const port = { name: 'https-reader', containerPort: 11251, protocol: 'TCP' };
    expect(ports).toContainEqual(port);
    const { serviceAccountName } = objectOf<V1DaemonSet>(name, 'DaemonSet').spec!.template.spec!;
    const account = `${serviceAccountName}-reader`;
    const accounts = readManifest(name).filter(({ kind }) => kind === 'ServiceAccount');
    expect(accounts.map(({ metadata }) => (metadata as V1ObjectMeta).name)).toContain(account);
    const { rules } = objectOf<V1Role>(name, 'Role');
    expect(rules).toEqual([
      { apiGroups: [''], resources: ['pods'], verbs: ['get', 'list'] },
      { apiGroups: [''], resources: ['pods/proxy'], verbs: ['create'] },
      {
        apiGroups: [''],
        resources: ['serviceaccounts/token'],
        resourceNames: [account],
        verbs: ['create'],
      },
    ]);
    const { rules: answers } = objectOf<V1Role>(name, 'ClusterRole');
    expect(answers).toEqual([{ nonResourceURLs: ['/fairlead/v1/*'], verbs: ['get'] }]);
    expect(objectOf<V1RoleBinding>(name, 'RoleBinding').subjects).toEqual([
      { kind: 'Group', name: 'network-readers', apiGroup: 'rbac.authorization.k8s.io' },
    ]);
  });

  it('has a PodMonitor for a declared port, which labels targets with the name of the node', () => {
    const { metadata, spec } = objectOf<{
      metadata: V1ObjectMeta;
      spec: { podMetricsEndpoints: { port: string; relabelings: object[] }[] };
    }>(name, 'PodMonitor');
    expect(metadata.labels).toMatchObject({ release: 'kube-prometheus-stack' });
    const [{ port, relabelings } = { port: '', relabelings: [] }] = spec.podMetricsEndpoints;
    const declared = containerOf(name, 'fairlead')!.ports!.map((one) => one.name);
    expect(declared).toContain(port);
    expect(relabelings).toContainEqual({
      sourceLabels: ['__meta_kubernetes_pod_node_name'],
      targetLabel: 'node',
    });
  });

  it('asks the status of each node in a test, up to maxNodes', () => {
    const pod = objectOf<V1Pod>(name, 'Pod');
    expect(pod.metadata!.annotations).toMatchObject({ 'helm.sh/hook': 'test' });
    expect(pod.spec).toMatchObject({ nodeName: 'n1', hostNetwork: true, restartPolicy: 'Never' });
    const [container] = pod.spec!.containers;
    expect(container!.args).toEqual(['status', '--server', '127.0.0.1:11249']);
    expect(container!.image).toBe(containerOf(name, 'fairlead')!.image);
  });
});

it('the chart mounts only its own folder of /sys/fs/bpf from the node, and sysctls of the network', () => {
  const { volumes } = objectOf<V1DaemonSet>('hardened-connect-time.diff', 'DaemonSet').spec!
    .template.spec!;
  const paths = volumes!.flatMap(({ hostPath }) => hostPath?.path ?? []);
  expect(paths.sort()).toEqual([
    '/proc/sys/net',
    '/run/xtables.lock',
    '/sys/fs/bpf/fairlead',
    '/sys/fs/cgroup',
  ]);
});

it('the chart on EKS reads the configuration and the kubeconfig from its ConfigMaps', () => {
  const { args, volumeMounts } = containerOf('eks.diff', 'fairlead')!;
  expect(args).toContain('--config=/var/lib/kube-proxy-config/config');
  const { volumes } = objectOf<V1DaemonSet>('eks.diff', 'DaemonSet').spec!.template.spec!;
  const mapAt = (path: string) => {
    const mount = volumeMounts!.find(({ mountPath }) => mountPath === path);
    return volumes!.find(({ name }) => name === mount?.name)?.configMap?.name;
  };
  expect(mapAt('/var/lib/kube-proxy-config')).toBe('kube-proxy-config');
  expect(mapAt('/var/lib/kube-proxy')).toBe('kube-proxy');
});

it('the chart documents each value and its type', () => {
  const values = documentedValues(read('values.yaml'));
  const bare = values.filter(({ meaning, shown }) => shown !== undefined && meaning === '');
  expect(values.length).toBeGreaterThan(50);
  expect(bare).toEqual([]);
  interface Schema {
    readonly properties?: Readonly<Record<string, Schema>>;
    readonly [key: string]: unknown;
  }
  const schema = JSON.parse(read('values.schema.json')) as Schema;
  for (const { path, shown } of values) {
    const place = path
      .split('.')
      .reduce<Schema | undefined>((at, name) => at?.properties?.[name], schema);
    expect(place, path).toBeDefined();
    if (shown !== undefined) expect(place, path).toHaveProperty('description');
  }
});

/** The other release has the same with the name fairlead (scripts/manifests). */
it('a canary is on the nodes of a label, selects its own pods, and has its own objects', () => {
  const { selector, template } = objectOf<V1DaemonSet>('canary.diff', 'DaemonSet').spec!;
  const { nodeSelectorTerms } =
    template.spec!.affinity!.nodeAffinity!.requiredDuringSchedulingIgnoredDuringExecution!;
  const key = 'service-proxy-canary';
  expect(nodeSelectorTerms).toEqual([{ matchExpressions: [{ key, operator: 'Exists' }] }]);
  const instance = { 'app.kubernetes.io/instance': 'fairlead-canary' };
  expect(selector.matchLabels).toMatchObject(instance);
  expect(template.metadata!.labels).toMatchObject(instance);
  const names = readManifest('canary.diff').map(({ metadata }) => (metadata as V1ObjectMeta).name);
  expect(new Set(names)).toEqual(new Set(['fairlead-canary']));
});

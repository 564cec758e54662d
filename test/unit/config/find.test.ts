/** Configurations and command lines where people have them: in streams, Lists, Helm values. */
import { describe, expect, test } from 'vitest';
import { convert, type ImportSource, validateFile } from '../../../src/tools/import/index.ts';
import { bytes, header } from './support.ts';

function validate(text: string) {
  return validateFile('file', bytes(text));
}

/** What a conversion yields, without apiVersion and kind. */
function converted(from: ImportSource, text: string): string {
  const result = convert(from, bytes(text));
  expect([result.exitCode, result.notes]).toEqual([0, expect.anything()]);
  expect(validateFile('converted', bytes(result.text))).toMatchObject({ exitCode: 0 });
  return result.text
    .split('\n')
    .filter((line) => line !== '' && !/^(?:apiVersion|kind):/.test(line))
    .join('\n');
}

const cluster = 'apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n';
const subnet = 'networking: {podSubnet: 10.244.0.0/16}\n';

describe('config validate', () => {
  test('finds the configuration as a later document, and says what a start would read', () => {
    const result = validate(`${cluster}---\n${header}mode: ipvs\n`);
    expect(result).toMatchObject({
      exitCode: 0,
      text: 'document 2 (line 4), in file, is valid\n',
    });
    expect(result.notes[0]).toBe(
      'a start with --config reads the first document of the file, which is of kind ' +
        'ClusterConfiguration: give it a file with this one alone',
    );
  });

  test('reports lines of the whole file', () => {
    const result = validate(`${cluster}---\n${header}mode: x\n`);
    expect(result.notes[1]).toMatch(/^ {2}mode \(line 6\): "x": must be /);
  });

  test.each([
    ['a List', 'items:\n- {kind: Secret, metadata: {name: a}}\n- ', 'kind: List\n'],
    ['Helm values', 'image: {tag: v1}\nconfig: ', ''],
  ])('finds the configuration in %s', (_, before, after) => {
    const object = '{apiVersion: kubeproxy.config.k8s.io/v1alpha1, kind: KubeProxyConfiguration}';
    expect(validate(`${before}${object}\n${after}`)).toMatchObject({ exitCode: 0 });
  });

  test('finds it in a text in a list, with its line', () => {
    const patch = `${header}mode: x`.replaceAll('\n', '\n    ');
    const kind = `kind: Cluster\nkubeadmConfigPatches:\n- {}\n-\n  - |\n    ${patch}\n`;
    expect(validate(kind).notes[1]).toMatch(/^ {2}mode \(line 8\): "x": must be /);
  });

  test('finds it in a ConfigMap of a List, and not in what was applied before', () => {
    const map = (namespace: string, data: Record<string, string>) => ({
      kind: 'ConfigMap',
      metadata: { namespace, name: 'kube-proxy', annotations: { applied: JSON.stringify(data) } },
      data,
    });
    const list = {
      kind: 'List',
      items: [map('kube-system', { 'config.conf': `${header}mode: ipvs\n` }), map('x', { a: 'b' })],
    };
    expect(validate(JSON.stringify(list, undefined, 1)).text).toBe(
      'config.conf of ConfigMap kube-system/kube-proxy, in file, is valid\n',
    );
  });

  test('prefers nothing among several, and names them', () => {
    expect(validate(`a: 1\n---\n${header}---\n${header}`).notes).toEqual([
      'Error: the file has 2 of kind KubeProxyConfiguration: document 2 (line 3); ' +
        'document 3 (line 6); give one',
    ]);
  });

  test('checks a first document as a start reads it, whatever follows', () => {
    const result = validate(`${header}---\n${header}mode: x\n`);
    expect(result).toMatchObject({ exitCode: 0, text: 'file is valid\n' });
    expect(result.notes[0]).toBe('(line 3): only the first document of the file is read');
  });

  test('one document that cannot be read does not take the others away', () => {
    expect(validate(`a: 1\n---\nb: [}\n---\n${header}`)).toMatchObject({ exitCode: 0 });
  });

  test.each(['mode: {{ .Values.mode }}', '{% if a %}\nmode: ipvs\n{% endif %}', '{{ x }}\n  a: b'])(
    'says of a template that it has to be rendered: %j',
    (text) => {
      const { notes } = validate(`${header}${text}\n`);
      expect(notes).toHaveLength(2);
      expect(notes[1]).toMatch(/\(line \d\): is a template, with \{.*\}: render it first/);
    },
  );

  test('says of a variable of a shell that it has to be rendered', () => {
    expect(validate(`${header}clusterCIDR: \${POD_CIDR}\n`).notes[1]).toMatch(
      /^ {2}clusterCIDR \(line 3\): .*POD_CIDR.*; this looks like a template: render it first$/,
    );
  });
});

describe('config convert --from flags', () => {
  const daemonSet = (words: string) =>
    `{kind: DaemonSet, metadata: {name: kube-proxy}, spec: {template: {spec: {initContainers: ` +
    `[{command: [sh, -c, kube-proxy --v=9]}], containers: [{command: [${words}]}]}}}}`;

  test.each([
    ['a bundle', `kind: ServiceAccount\n---\n${daemonSet('kube-proxy, --v=2')}\n`],
    [
      'a JSON List',
      JSON.stringify({
        items: [{ spec: { containers: [{ command: ['/kube-proxy', '--v=2'] }] } }],
      }),
    ],
    [
      'a unit',
      '[Unit]\nAfter=kube-proxy\n[Service]\nEnvironmentFile=-/etc/kube-proxy\n' +
        'ExecStart=/usr/bin/kube-proxy \\\n  --v=2 \\\n  $ARGS\nRestart=on-failure\n',
    ],
    ['a file of variables', '# args\nKUBE_PROXY_ARGS="--v=2"\nexport OTHER=1\n'],
    ['a script', 'command -v kube-proxy || exit 1\nkube-proxy --v=2 2>&1 | tee log\n'],
  ])('finds the flags in %s', (_, text) => {
    expect(converted('flags', text)).toBe('logging:\n  verbosity: 2');
  });

  test.each(['$(NODE)', `$\{NODE}`, '$NODE', `$\{SNAP_DATA}/x`])(
    'leaves %s to a flag',
    (reference) => {
      const { notes, text } = convert(
        'flags',
        bytes(`kube-proxy --v=2 --kubeconfig=${reference}\n`),
      );
      const why = 'stays a flag, because it needs the environment of the program';
      expect(notes[0]).toBe(`--kubeconfig: ${why}`);
      expect(text).not.toContain('kubeconfig');
    },
  );
});

describe('config convert from distributions', () => {
  test.each([
    ['a configuration', 'cni: none\nkube-proxy-arg:\n- proxy-mode=ipvs\n- v=3\n'],
    ['a list of arguments', '- proxy-mode=ipvs\n- v=3\n'],
  ])('k3s: reads %s, over its own defaults', (_, text) => {
    expect(converted('k3s', text)).toBe(
      'conntrack:\n  maxPerCore: 0\n  tcpCloseWaitTimeout: 0s\n  tcpEstablishedTimeout: 0s\n' +
        'healthzBindAddress: 127.0.0.1:10256\nipvs:\n  minSyncPeriod: 1s\n' +
        'logging:\n  verbosity: 3\nmode: ipvs',
    );
  });

  test('RKE: reads extra_args', () => {
    const text = 'services:\n  kubeproxy:\n    extra_args: {proxy-mode: ipvs, v: 3}\n';
    expect(converted('rke', text)).toContain('mode: ipvs');
  });

  test('Talos: reads mode and extraArgs', () => {
    const text = 'cluster: {proxy: {mode: nftables, image: x, extraArgs: {v: "3"}}}\n';
    expect(converted('talos', text)).toBe('logging:\n  verbosity: 3\nmode: nftables');
  });

  test('k0s: reads fields, which win over its defaults, and extraArgs', () => {
    const text =
      'spec: {network: {kubeProxy: {disabled: false, mode: ipvs, ipvs: {strictARP: true}, ' +
      'metricsBindAddress: 127.0.0.1:1, extraArgs: {v: 3}}}}\n';
    expect(converted('k0s', text)).toBe(
      'ipvs:\n  strictARP: true\nlogging:\n  verbosity: 3\n' +
        'metricsBindAddress: 127.0.0.1:1\nmode: ipvs',
    );
  });

  test('kops: reads fields that are flags in another spelling', () => {
    const text =
      'kind: Cluster\nspec: {kubeProxy: {enabled: true, cpuRequest: 100m, proxyMode: ipvs, ' +
      'ipvsExcludeCIDRs: [10.0.0.0/8], logLevel: 3, featureGates: {AllAlpha: "true"}}}\n';
    expect(converted('kops', text)).toBe(
      'featureGates:\n  AllAlpha: true\nipvs:\n  excludeCIDRs:\n  - 10.0.0.0/8\n' +
        '  minSyncPeriod: 1s\nlogging:\n  verbosity: 3\nmode: ipvs',
    );
  });

  test('kubeadm: adds the CIDR of pods and the kubeconfig', () => {
    expect(converted('kubeadm', `${cluster}${subnet}---\n${header}mode: ipvs\n`)).toBe(
      'clientConnection:\n  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf\n' +
        'clusterCIDR: 10.244.0.0/16\nmode: ipvs',
    );
    const own = `${header}clusterCIDR: 10.0.0.0/8\nclientConnection: {kubeconfig: /k}\n`;
    expect(converted('kubeadm', `${cluster}${subnet}---\n${own}`)).toBe(
      'clientConnection:\n  kubeconfig: /k\nclusterCIDR: 10.0.0.0/8',
    );
    const map = { kind: 'ConfigMap', data: { ClusterConfiguration: `${cluster}${subnet}` } };
    expect(converted('kubeadm', JSON.stringify(map))).toContain('clusterCIDR: 10.244.0.0/16');
  });

  test.each([
    ['of another kind', 'kind: Pod\nmetadata: {name: p}\n---\nkind: Pod\n', /: it has Pod p, Pod$/],
    ['that cannot be read whole', `${cluster}---\n{{ .Proxy }}\n`, /is a template/],
  ])('kubeadm: rejects a file %s', (_, text, error) => {
    const result = convert('kubeadm', bytes(text));
    expect([result.exitCode, result.text]).toEqual([1, '']);
    expect(result.notes.at(-1)).toMatch(error);
  });

  test.each(['k3s', 'rke', 'talos', 'k0s', 'kops'] as const)('%s: rejects another file', (from) => {
    const { exitCode, notes, text } = convert(from, bytes('a: 1\n'));
    expect([exitCode, text]).toEqual([1, '']);
    expect(notes[0]).toMatch(/^error: file: there is no [\w.-]+ in it$/);
  });
});

describe('what older releases had', () => {
  test('a gate that only the client of the API server has is one of kube-proxy', () => {
    const gates = `${header}featureGates: {ClientsAllowTLSCacheGC: true}\n`;
    expect(validate(gates)).toMatchObject({ exitCode: 0 });
  });

  test('a removed gate is refused with its own line, and what to do', () => {
    const { notes } = validate(
      `${header}featureGates:\n  AllAlpha: false\n  IPv6DualStack: true\n`,
    );
    expect(notes[1]).toBe(
      '  featureGates (line 5): unrecognized feature gate: IPv6DualStack ' +
        '(removed in Kubernetes 1.25: delete the line)',
    );
  });

  test.each([
    [
      'conntrack: {max: 5}',
      'conntrack.max (line 3, of older releases, the most connections in all',
    ],
    ['resourceContainer: /x', 'resourceContainer (line 3, of older releases: delete it)'],
    ['udpTimeoutMilliseconds: 5', 'of older releases, now udpIdleTimeout)'],
    ['metadata: {}', 'metadata (line 3, this kind has none: delete it)'],
    ['udpTimeout: 5s', 'did you mean ipvs.udpTimeout or conntrack.udpTimeout?'],
    ['detectLocal: {detectLocalMode: x}', 'did you mean detectLocalMode?'],
  ])('%s: says what the field was, or where it belongs', (yaml, hint) => {
    expect(validate(`${header}${yaml}\n`).notes[0]).toContain(hint);
  });
});

describe('a list of one empty string', () => {
  test.each(['nodePortAddresses', 'externalIPs.cidrs', 'externalIPs.namespaces'])(
    '%s: is not the same as no list',
    (field) => {
      const [section, name] = field.split('.');
      const yaml = name === undefined ? `${section}: [""]` : `${section}: {${name}: [""]}`;
      const result = validate(`${header}${yaml}\n`);
      expect(result.exitCode).toBe(1);
      expect(result.notes[1]).toContain(`${field} (line 3): ""`);
      expect(validate(`${header}${yaml.replace('""', '')}\n`)).toMatchObject({ exitCode: 0 });
    },
  );
});

describe('arguments of the operator of OpenShift', () => {
  test('keep their section, whatever the mode', () => {
    const text =
      'apiVersion: operator.openshift.io/v1\nkind: Network\nspec: {kubeProxyConfig: ' +
      '{proxyArguments: {proxy-mode: [nftables], iptables-min-sync-period: ["30s"], ' +
      'nftables-min-sync-period: ["2s"], enable-profiling: ["true"]}}}\n';
    expect(converted('openshift', text)).toBe(
      'enableProfiling: true\nhealthzBindAddress: 0.0.0.0:10255\n' +
        'iptables:\n  minSyncPeriod: 30s\n' +
        'metricsBindAddress: 0.0.0.0:29102\nmode: nftables\nnftables:\n  minSyncPeriod: 2s',
    );
  });
});

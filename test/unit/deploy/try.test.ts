/** What `npm run try` does to clusters of distributions that cannot run here. */
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { installing, manifestFor, targets, undoing } from '../../../scripts/try/targets.ts';

const plain = readFileSync(
  resolve(import.meta.dirname, '../../../deploy/manifests/plain.yaml'),
  'utf8',
);

/** The environment and the configuration of the DaemonSet that is installed. */
function installed(name: string) {
  const [configMap, daemonSet] = parseAllDocuments(manifestFor(plain, targets[name]!)).map((one) =>
    one.toJS(),
  );
  const [container] = daemonSet.spec.template.spec.containers;
  const environment = Object.fromEntries(
    container.env.map((one: { name: string; value?: string }) => [one.name, one.value]),
  );
  return {
    config: parse(configMap.data['config.conf']),
    image: container.image,
    policy: container.imagePullPolicy,
    server: `${environment.KUBERNETES_SERVICE_HOST}:${environment.KUBERNETES_SERVICE_PORT}`,
  };
}

const config = {
  apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
  kind: 'KubeProxyConfiguration',
  clusterCIDR: '10.244.0.0/16',
  mode: 'nftables',
};
const own = { image: 'localhost/fairlead:0.1.0', policy: 'Never' };

describe('trying a clone in a cluster', () => {
  it('installs it with the API server and the addresses of each', () => {
    expect(installed('kind')).toEqual({
      ...own,
      config: { ...config, conntrack: { maxPerCore: 0 } },
      server: 'fairlead-control-plane:6443',
    });
    const server = 'control-plane.minikube.internal:8443';
    expect(installed('minikube')).toEqual({ ...own, config, server });
    expect(installed('k3s')).toEqual({
      ...own,
      config: { ...config, clusterCIDR: '10.42.0.0/16' },
      server: '127.0.0.1:6443',
    });
  });

  it('makes the cluster, loads the image, installs, and takes all back', () => {
    const linesOf = (name: string): string[] => {
      const commands = installing(targets[name]!, 'IMAGE', 'FILE');
      return [...commands, ...undoing(targets[name]!, 'FILE')].map((one) => one.join(' '));
    };
    const rest = (kubectl: string): string[] => [
      `${kubectl} apply --filename=FILE`,
      `${kubectl} rollout status --namespace=kube-system daemonset/fairlead --timeout=300s`,
      `${kubectl} exec --namespace=kube-system daemonset/fairlead -- fairlead status`,
    ];
    expect(linesOf('kind')).toEqual([
      'kind create cluster --name=fairlead --config=build/try/kind-cluster.yaml',
      'kind load image-archive --name=fairlead IMAGE',
      ...rest('kubectl --context=kind-fairlead'),
      'kind delete cluster --name=fairlead',
    ]);
    expect(linesOf('minikube')).toEqual([
      'minikube --profile=fairlead start --cni=bridge --extra-config=kubeadm.skip-phases=addon/kube-proxy',
      'minikube --profile=fairlead image load IMAGE',
      ...rest('kubectl --context=fairlead'),
      'minikube --profile=fairlead delete',
    ]);
    expect(linesOf('k3s')).toEqual([
      'systemctl restart k3s',
      'k3s ctr images import IMAGE',
      ...rest('k3s kubectl'),
      'k3s kubectl delete --ignore-not-found --filename=FILE',
      'rm -f /etc/rancher/k3s/config.yaml.d/fairlead.yaml',
      'systemctl restart k3s',
      'bin/fairlead --cleanup',
    ]);
  });

  it('refuses a manifest that it does not know', () => {
    expect(() => manifestFor(plain.replace('API_SERVER', 'SERVER'), targets.kind!)).toThrow(
      'the manifest has no "API_SERVER"',
    );
  });
});

describe('npm run try', () => {
  const root = resolve(import.meta.dirname, '../../..');

  /** Runs it where no other programs are than these, which print their arguments. */
  function tried(args: readonly string[], exitCodes: Readonly<Record<string, number>>) {
    const folder = mkdtempSync(join(tmpdir(), 'fairlead-try-'));
    try {
      for (const [name, code] of Object.entries(exitCodes)) {
        const text = `#!/bin/sh\necho "ran ${name} $*"\nexit ${code}\n`;
        writeFileSync(join(folder, name), text);
        chmodSync(join(folder, name), 0o755);
      }
      const main = join(root, 'scripts/try/main.ts');
      const env = { PATH: folder };
      const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], { env });
      return { status, lines: `${stdout}${stderr}`.trim().split('\n') };
    } finally {
      rmSync(folder, { recursive: true });
    }
  }

  it('runs the commands that it prints, until one fails', () => {
    const command = 'kind delete cluster --name=fairlead';
    const lines = [`$ ${command}`, `ran ${command}`];
    expect(tried(['kind', '--undo'], { kind: 0, kubectl: 0 })).toEqual({ status: 0, lines });
    expect(tried(['kind', '--undo'], { kind: 3, kubectl: 0 })).toEqual({
      status: 1,
      lines: [...lines, 'fairlead: kind has failed (3)'],
    });
  });

  it('names the programs that are missing, before it runs any', () => {
    expect(tried(['minikube', '--undo'], { docker: 0 })).toEqual({
      status: 1,
      lines: ['fairlead: minikube needs minikube and kubectl on the PATH'],
    });
    expect(tried(['k3s'], { k3s: 0, rm: 0 }).lines).toEqual([
      'fairlead: k3s needs systemctl on the PATH',
    ]);
  });

  it('prints all commands of a dry run without any of the programs', () => {
    const { status, lines } = tried(['k3s', '--dry-run'], {});
    const target = targets.k3s!;
    const commands = installing(target, 'build/image/ARCHIVE', 'build/try/k3s.yaml');
    expect(status).toBe(0);
    expect(lines).toEqual([
      `# ${target.file!.path}: disable-kube-proxy: true`,
      ...commands.map((one) => `$ ${one.join(' ')}`),
      'To undo it: npm run try -- k3s --undo',
    ]);
  });
});

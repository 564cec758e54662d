/** What `npm run try` does to clusters of distributions that cannot run here. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
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

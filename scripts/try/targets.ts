/** What it takes to run Fairlead from this clone in a cluster on this machine, and to undo it. */

/** A command: a program and its arguments. */
export type Command = readonly string[];

/** A file that must exist before commands run. */
interface File {
  readonly path: string;
  readonly text: string;
}

export interface Target {
  /** What it is for. */
  readonly what: string;
  /** Makes a cluster without kube-proxy. */
  readonly file?: File;
  readonly begin: readonly Command[];
  /** Makes the image known to its nodes, whose archive follows. */
  readonly load: Command;
  readonly kubectl: Command;
  /** Where pods reach the API server before Services work. */
  readonly apiServer: { readonly host: string; readonly port: number };
  /** The addresses of pods. */
  readonly clusterCIDR: string;
  /** Nodes share this machine's kernel, whose settings are not theirs. */
  readonly sharesKernel?: true;
  /** Runs after the manifest is deleted, if the cluster is still there. */
  readonly undo: readonly Command[];
  /** The cluster goes as a whole, so that nothing has to be deleted in it. */
  readonly goes?: true;
}

const kindConfig = `kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
networking:
  kubeProxyMode: none
  podSubnet: 10.244.0.0/16
`;
const k3sFile = '/etc/rancher/k3s/config.yaml.d/fairlead.yaml';

export const targets: Readonly<Record<string, Target>> = {
  kind: {
    what: 'a new cluster in Docker, without kube-proxy',
    file: { path: 'build/try/kind-cluster.yaml', text: kindConfig },
    begin: [
      ['kind', 'create', 'cluster', '--name=fairlead', '--config=build/try/kind-cluster.yaml'],
    ],
    load: ['kind', 'load', 'image-archive', '--name=fairlead'],
    kubectl: ['kubectl', '--context=kind-fairlead'],
    apiServer: { host: 'fairlead-control-plane', port: 6443 },
    clusterCIDR: '10.244.0.0/16',
    sharesKernel: true,
    undo: [['kind', 'delete', 'cluster', '--name=fairlead']],
    goes: true,
  },
  minikube: {
    what: 'a new cluster of minikube, without kube-proxy',
    begin: [
      [
        ...['minikube', '--profile=fairlead', 'start', '--cni=bridge'],
        '--extra-config=kubeadm.skip-phases=addon/kube-proxy',
      ],
    ],
    load: ['minikube', '--profile=fairlead', 'image', 'load'],
    kubectl: ['kubectl', '--context=fairlead'],
    apiServer: { host: 'control-plane.minikube.internal', port: 8443 },
    clusterCIDR: '10.244.0.0/16',
    undo: [['minikube', '--profile=fairlead', 'delete']],
    goes: true,
  },
  k3s: {
    what: 'the k3s server of this machine, whose kube-proxy it switches off',
    file: { path: k3sFile, text: 'disable-kube-proxy: true\n' },
    begin: [['systemctl', 'restart', 'k3s']],
    load: ['k3s', 'ctr', 'images', 'import'],
    kubectl: ['k3s', 'kubectl'],
    apiServer: { host: '127.0.0.1', port: 6443 },
    clusterCIDR: '10.42.0.0/16',
    // Connections continue: kube-proxy has its rules before those of Fairlead go.
    undo: [
      ['rm', '-f', k3sFile],
      ['systemctl', 'restart', 'k3s'],
      ['bin/fairlead', '--cleanup'],
    ],
  },
};

/** `plain`, the chart's manifest without kube-proxy (`deploy/manifests/plain.yaml`), for `target`. */
export function manifestFor(plain: string, target: Target): string {
  const { apiServer, clusterCIDR, sharesKernel } = target;
  const settings = sharesKernel === true ? '\n    conntrack: { maxPerCore: 0 }' : '';
  return replaced(plain, [
    ['"API_SERVER"', `"${apiServer.host}"`],
    [
      'KUBERNETES_SERVICE_PORT, value: "6443"',
      `KUBERNETES_SERVICE_PORT, value: "${apiServer.port}"`,
    ],
    ['clusterCIDR: 10.244.0.0/16', `clusterCIDR: ${clusterCIDR}${settings}`],
    ['imagePullPolicy: IfNotPresent', 'imagePullPolicy: Never'],
  ]);
}

/** Fails if one of the texts is not there: the manifest has changed. */
function replaced(text: string, pairs: readonly (readonly [string, string])[]): string {
  return pairs.reduce((all, [from, to]) => {
    if (!all.includes(from)) throw new Error(`the manifest has no ${from}`);
    return all.replace(from, to);
  }, text);
}

/** What installs the image of this archive, with the manifest at this path. */
export function installing(target: Target, archive: string, manifest: string): Command[] {
  const { begin, kubectl, load } = target;
  return [
    ...begin,
    [...load, archive],
    [...kubectl, 'apply', `--filename=${manifest}`],
    [...kubectl, ...rollout],
    [...kubectl, ...status],
  ];
}

const inNamespace = '--namespace=kube-system';
const rollout = ['rollout', 'status', inNamespace, 'daemonset/fairlead', '--timeout=300s'];
const status = ['exec', inNamespace, 'daemonset/fairlead', '--', 'fairlead', 'status'];

/** What leaves the machine as it was. */
export function undoing({ goes, kubectl, undo }: Target, manifest: string): Command[] {
  const deletion = [...kubectl, 'delete', '--ignore-not-found', `--filename=${manifest}`];
  return goes === true ? [...undo] : [deletion, ...undo];
}

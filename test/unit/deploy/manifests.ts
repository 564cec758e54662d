/** The manifests that we ship, as objects. */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { V1Container, V1DaemonSet } from '@kubernetes/client-node';
import { parseAllDocuments } from 'yaml';
import { problemsOf } from './schema.ts';

export const root: string = resolve(import.meta.dirname, '../../..');

export const manifests = [
  'kubeadm.yaml',
  'kubeadm-hardened.yaml',
  'plain.yaml',
  'openshift.yaml',
] as const;

export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly [field: string]: unknown;
}

/** For values that manifests do not use: what Helm would install, or what they change in one. */
export const rendered = [
  'everything.yaml',
  'hardened-connect-time.diff',
  'eks.diff',
  'canary.diff',
] as const;

export function readManifest(name: string): Manifest[] {
  return parseAllDocuments(textOf(name)).map((document) => document.toJS() as Manifest);
}

function textOf(name: string): string {
  const isShipped = (manifests as readonly string[]).includes(name);
  const folder = isShipped ? 'deploy/manifests' : 'test/unit/deploy/rendered';
  const text = readFileSync(join(root, folder, name), 'utf8');
  if (!name.endsWith('.diff')) return text;
  return changed(
    textOf(name.startsWith('hardened') ? 'kubeadm-hardened.yaml' : 'kubeadm.yaml'),
    text,
  );
}

/** `text` after what diff(1) says. */
function changed(text: string, diff: string): string {
  const lines = text.split('\n');
  for (const hunk of diff.split(/^(?=\d)/m).reverse()) {
    const [, from = '', to = from, how = ''] = /^(\d+)(?:,(\d+))?([acd])/.exec(hunk) ?? [];
    const added = hunk.split('\n').filter((line) => line.startsWith('> '));
    const at = how === 'a' ? Number(from) : Number(from) - 1;
    const gone = how === 'a' ? 0 : Number(to) - Number(from) + 1;
    lines.splice(at, gone, ...added.map((line) => line.slice(2)));
  }
  return lines.join('\n');
}

/** The API types of objects that each API server has. */
const types: Readonly<Record<string, string>> = {
  'apps/v1 DaemonSet': 'V1DaemonSet',
  'v1 ConfigMap': 'V1ConfigMap',
  'v1 Pod': 'V1Pod',
  'v1 Service': 'V1Service',
  'v1 ServiceAccount': 'V1ServiceAccount',
  'rbac.authorization.k8s.io/v1 ClusterRole': 'V1ClusterRole',
  'rbac.authorization.k8s.io/v1 ClusterRoleBinding': 'V1ClusterRoleBinding',
  'rbac.authorization.k8s.io/v1 Role': 'V1Role',
  'rbac.authorization.k8s.io/v1 RoleBinding': 'V1RoleBinding',
};
const others = [
  'monitoring.coreos.com/v1 PodMonitor',
  'monitoring.coreos.com/v1 PrometheusRule',
  'security.openshift.io/v1 SecurityContextConstraints',
];

/** The fields that the API does not know, and kinds that are not expected. */
export function unknownFields(object: Manifest): string[] {
  const kind = `${object.apiVersion} ${object.kind}`;
  const type = types[kind];
  if (type !== undefined) return problemsOf(object, type);
  return others.includes(kind) ? [] : [`${kind} is not expected`];
}

/** The only object of this kind. */
export function objectOf<T>(name: string, kind: string): T {
  const found = readManifest(name).filter((object) => object.kind === kind);
  if (found.length !== 1) throw new Error(`${name} has ${found.length} objects of kind ${kind}`);
  return found[0] as unknown as T;
}

/** Its DaemonSet's container that runs, or the one that comes before. */
export function containerOf(name: string, of: 'init' | 'fairlead'): V1Container | undefined {
  const set = objectOf<V1DaemonSet>(name, 'DaemonSet');
  const { containers, initContainers = [] } = set.spec!.template.spec!;
  return [...initContainers, ...containers].find((container) => container.name === of);
}

/** The manifests that we ship, as objects. */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { V1Container, V1DaemonSet } from '@kubernetes/client-node';
import { parseAllDocuments } from 'yaml';

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

export function readManifest(name: string): Manifest[] {
  const text = readFileSync(join(root, 'deploy/manifests', name), 'utf8');
  return parseAllDocuments(text).map((document) => document.toJS() as Manifest);
}

/** Its DaemonSet's container that runs, or the one that comes before. */
export function containerOf(name: string, of: 'init' | 'fairlead'): V1Container | undefined {
  const set = readManifest(name).find(({ kind }) => kind === 'DaemonSet') as unknown as V1DaemonSet;
  const { containers, initContainers = [] } = set.spec!.template.spec!;
  return [...initContainers, ...containers].find((container) => container.name === of);
}

/** Which KubeProxyConfiguration of a file is meant. */

import { decodeFile } from '../../config/file.ts';
import type { FieldPath } from '../../config/settings/index.ts';
import { child, formatProblem, type Tree, type TreeMap, textAt } from '../../config/tree.ts';
import { kind as configurationKind } from '../../config/values.ts';
import type { Conversion } from './conversion.ts';
import { contentsOf, type Found, nameOf } from './find.ts';

type Taken =
  /** `place` is where in the file it is; empty: the file, as a start would read it. */
  | {
      readonly configuration: Uint8Array | TreeMap;
      readonly place: string;
      readonly warnings: readonly string[];
    }
  | { readonly error: string };

/** What kubeadm calls it in its ConfigMap. */
const usualKey = 'config.conf';

/** The one configuration that is in the file; the file itself if that is what it claims to be. */
export function configurationIn(bytes: Uint8Array): Taken {
  const { documents, found, problems } = contentsOf(bytes, configurationKind);
  const itself = { configuration: bytes, place: '', warnings: [] };
  const first = documents[0];
  const kindOfFirst = textAt(first, 'kind');
  if (kindOfFirst === configurationKind) return itself;
  const candidates = found.filter(({ tree }) => textAt(tree, 'kind') === configurationKind);
  const usual = candidates.filter(({ key }) => key === usualKey);
  const [one, another] = usual.length > 0 ? usual : candidates;
  if (one === undefined) {
    if (first === undefined) return itself;
    if (problems.length > 0) return { error: problems.map(formatProblem).join('; ') };
    return isOtherKind(documents) ? { error: noneIn(documents) } : itself;
  }
  if (another !== undefined) return { error: severalIn(usual.length > 0 ? usual : candidates) };
  const what = `is of ${kindOfFirst === undefined ? 'no kind' : `kind ${kindOfFirst}`}`;
  const start = `a start with --config reads the first document of the file, which ${what}`;
  const warnings = one.key === '' ? [`${start}: give it a file with this one alone`] : [];
  return { configuration: one.tree, place: one.place, warnings };
}

function isOtherKind(documents: readonly Tree[]): boolean {
  return documents.length > 1 || textAt(documents[0], 'kind') === 'ConfigMap';
}

function noneIn(documents: readonly Tree[]): string {
  const kinds = documents.map(
    (one) => nameOf(one) ?? textAt(one, 'kind') ?? 'an object without kind',
  );
  return `there is no ${configurationKind} in the file: it has ${kinds.join(', ')}`;
}

function severalIn(candidates: readonly Found[]): string {
  const places = candidates.map(({ place }) => place).join('; ');
  return `the file has ${candidates.length} of kind ${configurationKind}: ${places}; give one`;
}

const kubeconfig = '/var/lib/kube-proxy/kubeconfig.conf';

/**
 * From kubeadm's file: its KubeProxyConfiguration, with what kubeadm adds (its component
 * configuration of kube-proxy: the pods' CIDR of the ClusterConfiguration, and the kubeconfig).
 */
export function importKubeadm(bytes: Uint8Array, conversion: Conversion): void {
  const { found, problems } = contentsOf(bytes, 'ClusterConfiguration');
  const isKubeadm = found.some(({ tree }) => textAt(tree, 'apiVersion')?.startsWith('kubeadm.'));
  const cluster = found.find(({ tree }) => textAt(tree, 'kind') === 'ClusterConfiguration')?.tree;
  const podSubnet = textAt(child(cluster, 'networking')?.tree, 'podSubnet');
  // What cannot be read may be the configuration.
  const mayLackIt = isKubeadm && problems.length === 0;
  const given = new Set(takeConfiguration(bytes, mayLackIt, conversion));
  if (podSubnet !== undefined && !given.has('clusterCIDR')) {
    conversion.take('ClusterConfiguration.networking.podSubnet', 'clusterCIDR', podSubnet);
  }
  if (given.has('clientConnection.kubeconfig')) return;
  conversion.take("kubeadm's default", 'clientConnection.kubeconfig', kubeconfig);
}

/** The fields that were given. */
function takeConfiguration(
  bytes: Uint8Array,
  mayLackIt: boolean,
  conversion: Conversion,
): readonly FieldPath[] {
  const taken = configurationIn(bytes);
  if ('error' in taken) {
    if (mayLackIt) {
      conversion.note('KubeProxyConfiguration', 'not given: all fields have their defaults');
    } else conversion.fail('file', taken.error);
    return [];
  }
  const decoded = decodeFile(taken.configuration);
  for (const warning of decoded.warnings) conversion.notes.push(warning);
  if (!decoded.ok) {
    for (const problem of decoded.problems) conversion.errors.push(formatProblem(problem));
    return [];
  }
  const fields = Object.entries(decoded.given) as [FieldPath, unknown][];
  for (const [field, value] of fields) conversion.take(field, field, value);
  return fields.map(([field]) => field);
}

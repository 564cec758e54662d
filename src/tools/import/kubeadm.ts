/**
 * From kubeadm's file: its KubeProxyConfiguration, with what kubeadm adds (its component
 * configuration of kube-proxy: the pods' CIDR of the ClusterConfiguration, and the kubeconfig).
 */
import { decodeFile } from '../../config/file.ts';
import type { FieldPath } from '../../config/settings/index.ts';
import { child, formatProblem, textAt } from '../../config/tree.ts';
import { configurationIn } from './configuration.ts';
import type { Conversion } from './conversion.ts';
import { contentsOf } from './find.ts';

const kubeconfig = '/var/lib/kube-proxy/kubeconfig.conf';

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

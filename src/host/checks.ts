/** Whether the configuration fits the node's IP families (behaviour document 3.5). */
import type { Config } from '../config/config.ts';
import { type CIDR, type Family, formatCIDR, parseCIDR } from '../net/address.ts';
import type { Node } from '../state/types.ts';

export interface CheckedNode {
  /** What this machine can do. */
  readonly families: readonly Family[];
  readonly primary: Family;
  readonly node: Node | undefined;
}

type Checked = Pick<
  Config,
  | 'detectLocal'
  | 'clusterCIDR'
  | 'failureDetection'
  | 'nodePortAddresses'
  | 'ipvs'
  | 'healthzBindAddress'
  | 'metricsBindAddress'
  | 'readBindAddress'
>;

/** Sentences for the operator. Throws an Error when the proxy could not do its work. */
export function checkConfig(config: Checked, checked: CheckedNode): string[] {
  const { families, primary } = checked;
  if (!families.includes(primary)) {
    throw new Error(`no support for primary IP family "${primary}": the kernel has it disabled`);
  }
  const fatal = [...clusterCIDRs(config, checked), ...podCIDRs(config, checked)];
  const errors = fatal.filter(({ severity }) => severity === 'fatal').map(({ text }) => text);
  if (errors.length > 0) {
    throw new Error(`kube-proxy configuration is incorrect: ${errors.join('; ')}`);
  }
  return [
    ...nodePorts(config, checked),
    ...fatal.map(({ text }) => text),
    ...detection(config),
    ...(families.length === 1 ? singleStack(config, primary) : []),
  ];
}

function detection({ clusterCIDR, failureDetection }: Checked): readonly string[] {
  if (failureDetection === 'off' || clusterCIDR.length > 0) return [];
  return [
    `failureDetection is ${failureDetection} and clusterCIDR is empty: ` +
      'only endpoints in podCIDRs of this node are probed, or left out',
  ];
}

interface Finding {
  readonly text: string;
  readonly severity: 'warning' | 'fatal';
}

function clusterCIDRs(
  { clusterCIDR, detectLocal }: Checked,
  { families, primary }: CheckedNode,
): Finding[] {
  if (detectLocal.kind !== 'ClusterCIDR' || !lacks(clusterCIDR, primary)) return [];
  const cidrs = clusterCIDR.map(formatCIDR).join(',');
  const text = `clusterCIDR ${cidrs} has nothing of the node's primary IP family, ${primary}`;
  return [{ text, severity: families.length === 1 ? 'fatal' : 'warning' }];
}

function podCIDRs({ detectLocal }: Checked, { node, primary }: CheckedNode): Finding[] {
  const cidrs = (node?.podCIDRs ?? []).flatMap((text) => parseCIDR(text) ?? []);
  if (!lacks(cidrs, primary)) return [];
  const listed = cidrs.map(formatCIDR).join(',');
  const text = `the node's podCIDRs ${listed} have nothing of its primary IP family, ${primary}`;
  return [{ text, severity: detectLocal.kind === 'NodeCIDR' ? 'fatal' : 'warning' }];
}

function nodePorts(
  { nodePortAddresses }: Checked,
  { families, primary }: CheckedNode,
): readonly string[] {
  switch (nodePortAddresses.kind) {
    case 'all':
      return [
        'nodePortAddresses is not set: node ports answer on every address of this node; ' +
          '"primary" would limit them to its node IPs',
      ];
    case 'listed': {
      const { cidrs, primary: isPrimary } = nodePortAddresses;
      if (isPrimary) return [];
      return families
        .filter((family) => lacks(cidrs, family))
        .map((family) => {
          const which = family === primary ? 'the primary IP family' : 'the other IP family';
          return (
            `nodePortAddresses has nothing of ${which}, ${family}: ` +
            `node ports answer on every ${family} address of this node`
          );
        });
    }
  }
}

function singleStack(config: Checked, primary: Family): string[] {
  const warnings: string[] = [];
  if (lacks(config.ipvs.excludeCIDRs, primary)) {
    warnings.push(`ipvs.excludeCIDRs has nothing of this node's only IP family, ${primary}`);
  }
  for (const field of ['healthzBindAddress', 'metricsBindAddress', 'readBindAddress'] as const) {
    const address = config[field]?.address;
    if (address === undefined || address.family === primary) continue;
    if (address.bytes.every((byte) => byte === 0)) continue;
    warnings.push(`${field} is not of this node's only IP family, ${primary}`);
  }
  return warnings;
}

/** There are some, and none is of this family. */
function lacks(cidrs: readonly CIDR[], family: Family): boolean {
  return cidrs.length > 0 && cidrs.every(({ address }) => address.family !== family);
}

/** Whether configuration, Node and machine fit together (behaviour document 3.5). */
import type { Config } from '../config/config.ts';
import {
  type Address,
  families as allFamilies,
  type CIDR,
  cidrContains,
  type Family,
  formatAddress,
  formatCIDR,
  parseCIDR,
} from '../net/address.ts';
import type { Node } from '../state/types.ts';
import type { Finding } from './finding.ts';
import { nodeIPs } from './node-ips.ts';
import { nameOrigin } from './node-name.ts';

export interface CheckedNode {
  /** What this machine can do. */
  readonly families: readonly Family[];
  /** The addresses of this machine. */
  readonly interfaces: readonly Address[];
  readonly nodeName: string;
  /** `missing`: the cluster has none of this name. Undefined: it is not known. */
  readonly node: Node | 'missing' | undefined;
}

type Checked = Pick<
  Config,
  | 'bindAddress'
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
  const { families } = checked;
  const primary = primaryOf(config, checked);
  if (!families.includes(primary)) {
    throw new Error(`no support for primary IP family "${primary}": the kernel has it disabled`);
  }
  const found = findingsOf(config, checked);
  const errors = found.filter(({ level }) => level === 'fatal').map(({ text }) => text);
  if (errors.length > 0) {
    throw new Error(`kube-proxy configuration is incorrect: ${errors.join('; ')}`);
  }
  return [
    ...nodePorts(config, checked, primary),
    ...found.map(({ text }) => text),
    ...detection(config),
    ...(families.length === 1 ? singleStack(config, primary) : []),
  ];
}

/** What does not fit together, at present. */
export function findingsOf(config: Checked, checked: CheckedNode): Finding[] {
  const primary = primaryOf(config, checked);
  return [
    ...missingNode(checked),
    ...otherAddresses(checked),
    ...unservedFamilies(checked),
    ...clusterCIDRs(config, checked, primary),
    ...podCIDRs(config, checked, primary),
  ];
}

function finding(level: Finding['level'], text: string): Finding {
  return { check: '', level, text, advice: '' };
}

function nodeOf({ node }: CheckedNode): Node | undefined {
  return node === 'missing' ? undefined : node;
}

function primaryOf({ bindAddress }: Checked, checked: CheckedNode): Family {
  return nodeIPs(nodeOf(checked), bindAddress).primary;
}

function missingNode({ node, nodeName }: CheckedNode): Finding[] {
  if (node !== 'missing') return [];
  return [finding('problem', `no Node is called "${nodeName}": ${nameOrigin}`)];
}

/** A Node of another machine, or one whose addresses have changed. */
function otherAddresses(checked: CheckedNode): Finding[] {
  const { families, interfaces } = checked;
  const { addresses = [] } = nodeOf(checked) ?? {};
  const has = (address: Address): boolean => interfaces.some(({ key }) => key === address.key);
  return families.flatMap((family): Finding[] => {
    const own = addresses.filter((address) => address.family === family);
    if (own.length === 0 || own.some(has)) return [];
    const text = `no interface has the ${family} ${textsOf(own)} of Node "${checked.nodeName}"`;
    return [finding('problem', `${text}: it is another machine's, or out of date`)];
  });
}

function unservedFamilies(checked: CheckedNode): Finding[] {
  const { addresses = [] } = nodeOf(checked) ?? {};
  return allFamilies.flatMap((family): Finding[] => {
    const own = addresses.filter((address) => address.family === family);
    if (own.length === 0 || checked.families.includes(family)) return [];
    const text = `${family} is not served, of which the Node has ${textsOf(own)}: ${disabledText}`;
    return [finding('problem', text)];
  });
}

/** Why a family is not served, and until when. */
export const disabledText = 'the kernel has it disabled; it will be served once it is enabled';

function textsOf(addresses: readonly Address[]): string {
  const texts = addresses.map(({ bytes }) => formatAddress(bytes));
  return `address${texts.length === 1 ? '' : 'es'} ${texts.join(', ')}`;
}

function detection({ clusterCIDR, failureDetection }: Checked): readonly string[] {
  if (failureDetection === 'off' || clusterCIDR.length > 0) return [];
  return [
    `failureDetection is ${failureDetection} and clusterCIDR is empty: ` +
      'only endpoints in podCIDRs of this node are probed, or left out',
  ];
}

function clusterCIDRs(
  { clusterCIDR, detectLocal }: Checked,
  checked: CheckedNode,
  primary: Family,
): Finding[] {
  const { families } = checked;
  if (detectLocal.kind !== 'ClusterCIDR') return [];
  if (clusterCIDR.length === 0) {
    const mode = `detectLocalMode is ClusterCIDR${detectLocal.isDefault ? ' by default' : ''}`;
    const text = `clusterCIDR is empty and ${mode}: pods are taken for clients outside the cluster`;
    return [finding(detectLocal.isDefault ? 'warning' : 'problem', text)];
  }
  const cidrs = clusterCIDR.map(formatCIDR).join(',');
  if (!lacks(clusterCIDR, primary)) return podsOutside(clusterCIDR, cidrs, checked);
  const text = `clusterCIDR ${cidrs} has nothing of the node's primary IP family, ${primary}`;
  return [finding(families.length === 1 ? 'fatal' : 'problem', text)];
}

/** Some network plugins do not take the addresses of pods from podCIDRs, so that may be right. */
function podsOutside(all: readonly CIDR[], cidrs: string, checked: CheckedNode): Finding[] {
  const { podCIDRs: given = [] } = nodeOf(checked) ?? {};
  const outside = given.filter((text) => {
    const own = parseCIDR(text);
    const ofFamily = all.filter(({ address }) => address.family === own?.address.family);
    return ofFamily.length > 0 && !ofFamily.some((one) => own !== undefined && isIn(own, one));
  });
  if (outside.length === 0) return [];
  const text = `clusterCIDR ${cidrs} does not contain ${outside.join(', ')}, a podCIDR of the Node`;
  return [finding('warning', `${text}: pods there are taken for clients outside the cluster`)];
}

function isIn({ address, prefixLength }: CIDR, block: CIDR): boolean {
  return block.prefixLength <= prefixLength && cidrContains(block, address);
}

function podCIDRs({ detectLocal }: Checked, checked: CheckedNode, primary: Family): Finding[] {
  const { podCIDRs: given = [] } = nodeOf(checked) ?? {};
  const cidrs = given.flatMap((text) => parseCIDR(text) ?? []);
  if (!lacks(cidrs, primary)) return [];
  const listed = cidrs.map(formatCIDR).join(',');
  const text = `the node's podCIDRs ${listed} have nothing of its primary IP family, ${primary}`;
  return [finding(detectLocal.kind === 'NodeCIDR' ? 'fatal' : 'warning', text)];
}

function nodePorts(
  { nodePortAddresses }: Checked,
  { families }: CheckedNode,
  primary: Family,
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

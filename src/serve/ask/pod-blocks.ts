import type { Config } from '../../config/config.ts';
import { type CIDR, cidrContains, parseCIDR } from '../../net/address.ts';
import type { Node } from '../../state/types.ts';

/**
 * Blocks that have addresses of pods, and of no node, as far as this node's own address shows: in
 * some networks both are of one block.
 */
export function podBlocks(
  { clusterCIDR }: Pick<Config, 'clusterCIDR'>,
  node: Node | undefined,
): readonly CIDR[] {
  const { addresses = [], podCIDRs = [] } = node ?? {};
  const own = podCIDRs.flatMap((text) => parseCIDR(text) ?? []);
  return [...clusterCIDR, ...own].filter(
    (block) => !addresses.some((address) => cidrContains(block, address)),
  );
}

import type { Config } from '../config/config.ts';
import type { LocalDetector } from '../modes/mode.ts';
import { type Family, parseCIDR } from '../net/address.ts';
import type { Node } from '../state/types.ts';

/**
 * How traffic of this node's pods is recognised, for one family (behaviour document 3.5, 5.6). The
 * first CIDR of the family counts; without one, no traffic is known to be local.
 */
export function localDetector(
  { clusterCIDR, detectLocal: config }: Pick<Config, 'clusterCIDR' | 'detectLocal'>,
  family: Family,
  node: Node | undefined,
): LocalDetector {
  switch (config.kind) {
    case 'ClusterCIDR': {
      const cidr = clusterCIDR.find(({ address }) => address.family === family);
      return cidr === undefined ? { kind: 'none' } : { kind: 'cidr', cidr };
    }
    case 'NodeCIDR': {
      const parsed = (node?.podCIDRs ?? []).map((text) => parseCIDR(text));
      const cidr = parsed.find((one) => one?.address.family === family);
      return cidr === undefined ? { kind: 'none' } : { kind: 'cidr', cidr };
    }
    case 'BridgeInterface':
      return { kind: 'bridge', name: config.bridgeInterface };
    case 'InterfaceNamePrefix':
      return { kind: 'interface-prefix', prefix: config.interfaceNamePrefix };
  }
}

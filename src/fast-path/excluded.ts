/** The frontends of Services that do not take the fast path. */
import { IPPROTO } from '../kernel/nft/constants.ts';
import { binary, destinationKey } from '../modes/elements.ts';
import type { Service } from '../state/types.ts';
import type { Excluded } from './observation.ts';

/**
 * Whether no connection of the Service takes the fast path: by its annotation, or because it asks
 * that they are ended, which the kernel refuses for those that take it.
 */
export function isExcluded({ endings, isFastPathOff }: Service): boolean {
  return isFastPathOff === true || endings?.endAfterMs !== undefined;
}

/** Keys of the frontends of these Services. */
export function excludedBy(services: Iterable<Service>): Excluded {
  const keys = { IPv4: new Set<string>(), IPv6: new Set<string>(), nodePort: new Set<string>() };
  for (const { clusterIPs, externalIPs, loadBalancerIPs, ports } of services) {
    for (const { nodePort, port, protocol } of ports) {
      const number = IPPROTO[protocol];
      for (const address of [...clusterIPs, ...externalIPs, ...loadBalancerIPs]) {
        keys[address.family].add(binary(destinationKey(address, number, port)));
      }
      if (nodePort !== 0) keys.nodePort.add(binary(destinationKey(undefined, number, nodePort)));
    }
  }
  return keys;
}

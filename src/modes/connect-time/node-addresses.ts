/** The addresses of this node that accept node ports, as elements of the map of frontends. */

import { isLoopback } from '../../net/address.ts';
import { binary } from '../elements.ts';
import type { Environment } from '../mode.ts';
import { nodeAddressKey, nodeAddressValue } from './layout.ts';

export interface NodeAddressElement {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

/** By `binary` of their keys. */
export function nodeAddressElements({
  connectTimeAddresses = [],
}: Environment): Map<string, NodeAddressElement> {
  return new Map(
    connectTimeAddresses.map((address) => {
      const key = nodeAddressKey(address);
      return [
        binary(key),
        { key, value: nodeAddressValue(isLoopback(address) ? 'node' : 'everybody') },
      ];
    }),
  );
}

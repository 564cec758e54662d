/** The addresses and ports of this node with which frontends of Services may collide. */
import type { Address, AddressKey } from '../net/address.ts';
import type { Protocol } from '../net/protocol.ts';

export type AddressKeys = ReadonlySet<AddressKey>;

export interface NodeSockets {
  /** Addresses of this machine and of its Node. */
  readonly addresses: AddressKeys;
  /** The addresses that accept node ports. */
  readonly nodePorts: AddressKeys;
  /** TCP ports that this process itself listens on: health, metrics. */
  readonly listening: ReadonlySet<number>;
  /**
   * Where this process reads Services. An external IP there would cut the node off from the API
   * server, so that it never hears that the Service has gone.
   */
  readonly server?: ServerSocket | undefined;
  /**
   * Whether a program of the node can be reached there. An external IP would take the port from it:
   * 10250 from the kubelet. Absent: that is not known.
   */
  readonly hasProgram?: (protocol: Protocol, address: Address, port: number) => boolean;
}

interface ServerSocket {
  readonly address: AddressKey;
  /** `all`: a Service with any port there takes the whole address from the node. */
  readonly port: number | 'all';
}

/** Used if nothing is known of the node. */
export const noSockets: NodeSockets = {
  addresses: new Set(),
  nodePorts: new Set(),
  listening: new Set(),
};

export function keysOf(addresses: readonly Address[]): AddressKeys {
  return new Set(addresses.map(({ key }) => key));
}

/** Keys that are in only one of the two. */
export function difference(a: AddressKeys, b: AddressKeys): AddressKeys {
  return new Set([...[...a].filter((key) => !b.has(key)), ...[...b].filter((key) => !a.has(key))]);
}

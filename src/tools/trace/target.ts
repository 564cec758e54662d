/** Which packets to trace. */
import { type Address, type CIDR, formatEndpoint } from '../../net/address.ts';
import type { Protocol } from '../../net/protocol.ts';

/** The destination of the packets. */
export interface Target {
  readonly address: Address;
  readonly port: number;
  readonly protocol: Protocol;
}

/** Their sender: any host, these addresses, or this node. */
export type Sender =
  | { readonly kind: 'anyone' }
  | { readonly kind: 'addresses'; readonly block: CIDR }
  | { readonly kind: 'node' };

/** `10.96.0.1:80/TCP` */
export function targetText({ address, port, protocol }: Target): string {
  return `${formatEndpoint(address.bytes, port)}/${protocol}`;
}

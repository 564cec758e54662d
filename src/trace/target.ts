/** Which packets are traced. */
import { type Address, type CIDR, formatEndpoint } from '../net/address.ts';
import type { Protocol } from '../net/protocol.ts';

/** Where packets are sent. */
export interface Target {
  readonly address: Address;
  readonly port: number;
  readonly protocol: Protocol;
}

/** Who sends them: anybody, somebody at these addresses, this node. */
export type Sender =
  | { readonly kind: 'anyone' }
  | { readonly kind: 'addresses'; readonly block: CIDR }
  | { readonly kind: 'node' };

/** `10.96.0.1:80/TCP` */
export function targetText({ address, port, protocol }: Target): string {
  return `${formatEndpoint(address.bytes, port)}/${protocol}`;
}

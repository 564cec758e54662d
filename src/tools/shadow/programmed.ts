/** What kube-proxy has programmed, as it was read from its rules. */
import type { Family } from '../../net/address.ts';
import type { Reach } from './reach.ts';

export interface HeldFrontend {
  readonly reach: Reach;
  /** `ns/name` and the name of the port; undefined when the rules do not name them. */
  readonly owner: { readonly service: string; readonly port: string } | undefined;
}

export interface Programmed {
  readonly mode: 'nftables' | 'iptables';
  readonly family: Family;
  /** By the text of the frontend; undefined if its rules could not be read or changed meantime. */
  readonly frontends: ReadonlyMap<string, HeldFrontend | undefined>;
}

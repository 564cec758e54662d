/** Frontends as the kernel holds them. */
import type { Protocol } from '../../net/protocol.ts';
import type { FrontendSet, IPVSFrontend, IPVSShared } from './frontends.ts';
import type { ObservedServers } from './observed-servers.ts';

export type VirtualService = Pick<IPVSFrontend, 'id' | 'address' | 'protocol' | 'port'>;

export interface ObservedService extends VirtualService {
  readonly protocol: Protocol;
  readonly scheduler: string;
  /** IP_VS_SVC_F_* */
  readonly flags: number;
  readonly timeoutSeconds: number;
  readonly prefixLength: number;
  readonly servers: ObservedServers;
}

/** A frontend as the kernel holds it. */
export interface ObservedFrontend {
  readonly id: string;
  /** As `IPVSFrontend.key`. */
  readonly key: Uint8Array;
  /** Undefined if it does not exist, or is not ours. */
  readonly service: ObservedService | undefined;
  readonly sets: readonly FrontendSet[];
  /** The verdict of the frontend's element of `firewall-ips`, in nft's words. */
  readonly firewall: string | undefined;
}

export interface IPVSObjects {
  readonly frontend: IPVSFrontend;
  readonly observed: ObservedFrontend;
  readonly shared: IPVSShared;
}

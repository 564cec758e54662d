/** The description of packet paths of each mode. */
import { describer as iptables } from './iptables/packet-path.ts';
import { describer as ipvs } from './ipvs/packet-path.ts';
import type { ModeName } from './mode.ts';
import { describer as nftables } from './nftables/packet-path.ts';
import type { PathDescriber } from './packet-path.ts';
import { describer as userspace } from './userspace/packet-path.ts';

/** For frontends that sockets serve in addition to the rules of another mode. */
export const socketPathDescriber = userspace;

export const pathDescribers: Readonly<Record<ModeName, PathDescriber>> = {
  nftables,
  ipvs,
  iptables,
  userspace,
};

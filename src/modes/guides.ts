/** Each mode's guide: it tells what becomes of packets, and asks the kernel nothing. */
import { guide as iptables } from './iptables/guide.ts';
import { guide as ipvs } from './ipvs/guide.ts';
import type { ModeName } from './mode.ts';
import { guide as nftables } from './nftables/guide.ts';
import type { Guide } from './passage.ts';
import { guide as userspace } from './userspace/guide.ts';

/** For what sockets serve beside the rules of another mode. */
export const socketGuide = userspace;

export const guides: Readonly<Record<ModeName, Guide>> = { nftables, ipvs, iptables, userspace };

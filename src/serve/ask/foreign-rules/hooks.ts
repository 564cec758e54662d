/** At which hooks other programs' chains see packets to Services, before and after translation. */
import { NF_INET } from '../../../kernel/nft/constants.ts';
import type { ModeName } from '../../../modes/mode.ts';

export interface Hook {
  /** NF_INET_* */
  readonly hook: number;
  readonly priority: number;
  /** `filter`, `nat`, `route` */
  readonly type: string;
}

export type SeenThere = 'frontends' | 'endpoints' | 'health checks';

/** A chain of type nat of a higher priority comes too late: the first one translates. */
const translatesAt = { nftables: -99, iptables: -100 } as const;
/** Where IPVS takes packets of the node itself (NF_IP_PRI_NAT_DST + 1). */
const ipvsOutput = -99;

/** Which destinations packets to Services have there. */
export function seenAt(mode: ModeName, { hook, priority, type }: Hook): readonly SeenThere[] {
  const isNAT = type === 'nat';
  const { FORWARD, LOCAL_IN, LOCAL_OUT, POST_ROUTING, PRE_ROUTING } = NF_INET;
  if (hook === POST_ROUTING) return isNAT ? [] : ['endpoints'];
  if (mode === 'nftables' || mode === 'iptables') {
    if (hook === FORWARD) return ['endpoints'];
    if (hook === LOCAL_IN) return isNAT ? [] : ['health checks'];
    if (hook !== PRE_ROUTING && hook !== LOCAL_OUT) return [];
    if (priority < translatesAt[mode]) return ['frontends'];
    return isNAT ? [] : ['endpoints'];
  }
  switch (hook) {
    case PRE_ROUTING:
      return ['frontends'];
    case LOCAL_IN:
      return isNAT ? [] : ['frontends', 'health checks'];
    case LOCAL_OUT:
      if (isNAT) return ['frontends'];
      return mode === 'ipvs' && priority >= ipvsOutput ? ['endpoints'] : ['frontends', 'endpoints'];
    default:
      return [];
  }
}

/** IPVS and sockets serve packets that connection tracking does not see, too. */
export function translatesByTracking(mode: ModeName): boolean {
  return mode in translatesAt;
}

/** Whose packets pass the hook. */
export function passing(hook: number): string {
  switch (hook) {
    case NF_INET.PRE_ROUTING:
      return 'packets of pods, and from outside,';
    case NF_INET.LOCAL_OUT:
      return 'packets of this node itself';
    case NF_INET.FORWARD:
      return 'packets that this node forwards';
    case NF_INET.POST_ROUTING:
      return 'packets that leave this node';
    default:
      return 'packets that come in';
  }
}

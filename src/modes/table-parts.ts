/** What the tables of nf_tables of several modes have in common. */
import type { BaseChain, ChainDefinition, Rule } from '../kernel/nft/chain.ts';
import { NFT_SET, type NFTypeName } from '../kernel/nft/constants.ts';
import {
  daddr,
  dport,
  drop,
  inSet,
  jump,
  l4proto,
  masquerade,
  matchMark,
  type Selector,
  type Statement,
  saddr,
  stateNew,
  toggleMark,
} from '../kernel/nft/rule.ts';
import type { SetDefinition } from '../kernel/nft/sets.ts';
import type { Family } from '../state/address.ts';

/** A set: keys without data, which only we fill. `flags`: NFT_SET_*. */
export function set<Name extends string>(
  name: Name,
  key: readonly NFTypeName[],
  comment: string,
  flags = 0,
): SetDefinition & { readonly name: Name } {
  return { name, key, data: undefined, comment, flags, size: 0 };
}

/** The sets of `firewallCheck` and `masquerading`, and the ranges of ServiceCIDRs. */
export function commonSets(family: Family) {
  const address = family === 'IPv4' ? 'ipv4_addr' : 'ipv6_addr';
  const frontend = [address, 'inet_proto', 'inet_service'] as const;
  return {
    'service-cidrs': set(
      'service-cidrs',
      [address],
      'ranges that ClusterIPs come from',
      NFT_SET.INTERVAL,
    ),
    hairpin: set(
      'hairpin',
      [address, ...frontend],
      'endpoints of this node, which may reach themselves',
    ),
    'firewall-ips': set('firewall-ips', frontend, 'frontends that only source-ranges may reach'),
    'source-ranges': set(
      'source-ranges',
      [...frontend, address],
      'frontend . client',
      NFT_SET.INTERVAL | NFT_SET.CONCAT,
    ),
  };
}

/** What a client connected to, before translation. */
export function frontendSelectors(family: Family): readonly Selector[] {
  return [daddr(family), l4proto, dport];
}

/** A chain; without `base` one that others jump to. */
export function chain(name: string, rules: readonly Rule[], base?: BaseChain): ChainDefinition {
  return { name, base, rules };
}

/** Sends the first packet of each connection to the chain. */
export function ifNew(target: string): Rule {
  return [stateNew, jump(target)];
}

/** Drops clients that a load balancer's source ranges do not let in (behaviour document 5.7). */
export function firewallCheck(family: Family): ChainDefinition {
  const frontend = frontendSelectors(family);
  const client = [...frontend, saddr(family)];
  return chain('firewall-check', [
    [inSet(frontend, 'firewall-ips'), inSet(client, 'source-ranges', '!='), drop],
  ]);
}

/**
 * Masquerades what carries the mark, and endpoints that reach themselves. `translated` says more
 * about the latter's packets, where a mode can.
 */
export function masquerading(
  family: Family,
  mark: number,
  translated: readonly Statement[] = [],
): ChainDefinition {
  const hairpin = [saddr(family), ...frontendSelectors(family)];
  return chain('masquerading', [
    // The mark is taken off, so that the packet is not masqueraded again after encapsulation.
    [matchMark(mark), toggleMark(mark), masquerade],
    [...translated, inSet(hairpin, 'hairpin'), masquerade],
  ]);
}

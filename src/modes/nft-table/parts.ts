/** What the tables of nf_tables of several modes have in common. */
import type { BaseChain, ChainDefinition, Rule } from '../../kernel/nft/chain.ts';
import { NFT_SET, type NFTypeName } from '../../kernel/nft/constants.ts';
import { noPort } from '../../kernel/nft/ports.ts';
import {
  daddr,
  dport,
  inSet,
  jump,
  l4proto,
  masquerade,
  matchCIDR,
  matchInterface,
  matchInterfacePrefix,
  matchMark,
  type Selector,
  type Statement,
  saddr,
  stateNew,
  toggleMark,
  vmap,
} from '../../kernel/nft/rule.ts';
import type { SetDefinition } from '../../kernel/nft/sets.ts';
import type { Family } from '../../net/address.ts';
import type { LocalDetector } from '../mode.ts';

/** A set: keys without data, which only we fill. `flags`: NFT_SET_*. */
export function set<Name extends string>(
  name: Name,
  key: readonly NFTypeName[],
  comment: string,
  flags = 0,
): SetDefinition & { readonly name: Name } {
  return { name, key, data: undefined, comment, flags, size: 0 };
}

/** A map, which only we fill. */
export function map<Name extends string>(
  name: Name,
  key: readonly NFTypeName[],
  data: readonly NFTypeName[] | 'verdict',
  comment: string,
): SetDefinition & { readonly name: Name } {
  return { name, key, data, comment, flags: NFT_SET.MAP, size: 0 };
}

export function addressType(family: Family): 'ipv4_addr' | 'ipv6_addr' {
  return family === 'IPv4' ? 'ipv4_addr' : 'ipv6_addr';
}

/** The sets of `firewallCheck` and `masquerading`, and the ranges of ServiceCIDRs. */
export function commonSets(family: Family) {
  const address = addressType(family);
  const frontend = [address, 'inet_proto', 'inet_service'] as const;
  return [
    set('service-cidrs', [address], 'ranges that ClusterIPs come from', NFT_SET.INTERVAL),
    set('hairpin', [address, ...frontend], 'endpoints of this node, which may reach themselves'),
    map('firewall-ips', frontend, 'verdict', 'frontend : who may connect'),
    set(
      'self-clients',
      [address, address],
      'load-balancer addresses that may connect to themselves',
    ),
  ] as const;
}

/** What a client connected to, before translation. */
export function frontendSelectors(family: Family): readonly Selector[] {
  return [daddr(family), l4proto, dport];
}

/** The same for a range of ports, of which an address has one. */
export function rangeSelectors(family: Family): readonly Selector[] {
  return [daddr(family), l4proto, noPort];
}

/** A chain; without `base` one that others jump to. */
export function chain(name: string, rules: readonly Rule[], base?: BaseChain): ChainDefinition {
  return { name, base, rules };
}

/** Sends the first packet of each connection to the chain. */
export function ifNew(target: string): Rule {
  return [stateNew, jump(target)];
}

/** Drops clients that a load balancer's source ranges do not let in: see `source-ranges.ts`. */
export function firewallCheck(family: Family): ChainDefinition {
  return chain('firewall-check', [[vmap(frontendSelectors(family), 'firewall-ips')]]);
}

/**
 * Masquerades packets with the mark, and endpoints that reach themselves. `hairpins`: rules that
 * match these more closely, where a mode can do that.
 */
export function masquerading(
  family: Family,
  mark: number,
  hairpins: readonly Rule[] = [[inSet([saddr(family), ...frontendSelectors(family)], 'hairpin')]],
): ChainDefinition {
  return chain('masquerading', [
    // Without the mark, the packet is not masqueraded again after encapsulation.
    [matchMark(mark), toggleMark(mark), masquerade],
    ...hairpins.map((hairpin) => [...hairpin, masquerade]),
  ]);
}

/** Matches traffic of this node's pods (`==`) or other traffic (`!=`); none without a detector. */
export function detectLocal(detector: LocalDetector, operator: '==' | '!='): Statement[] {
  switch (detector.kind) {
    case 'none':
      return [];
    case 'cidr':
      return [matchCIDR('saddr', operator, detector.cidr)];
    case 'bridge':
      return [matchInterface(operator, detector.name)];
    case 'interface-prefix':
      return [matchInterfacePrefix(operator, detector.prefix)];
    default:
      return unreachable(detector);
  }
}

/** For the case that closes a switch over a union. */
export function unreachable(value: never): never {
  throw new Error(`unexpected value ${JSON.stringify(value)}`);
}

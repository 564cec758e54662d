/** Twin chains: one rule written by nft(8) and by us, compared in the kernel. */
import { expect } from 'vitest';
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
import { createKernel } from './namespace.ts';
import { applied, dumped, readRule } from './ops.ts';

/** Objects that the rules below need; `%` is the family, `ADDR` its address type. */
const objects = `
table % t {
  set s { type ADDR; }
  set i { type ifname; }
  set d { type ADDR; flags dynamic,timeout; timeout 1h; size 65535; }
  set connections { type ADDR; flags dynamic; size 65535; }
  set e { type ADDR . inet_service; flags dynamic; size 65535; }
  map m { type ADDR : ADDR; }
  map affinity { type ADDR : ADDR . inet_service; flags dynamic,timeout; timeout 1h; size 65535; }
  map endpoints { typeof % daddr . meta l4proto . th dport . numgen random mod 2 : % daddr . tcp dport; }
  map node-ports { typeof meta l4proto . th dport . numgen random mod 2 : % daddr . tcp dport; }
  map services { type ADDR . inet_proto . inet_service : verdict; }
  chain target { }
  chain nat-theirs { type nat hook prerouting priority -100; }
  chain nat-ours { type nat hook prerouting priority -99; }
  chain snat-theirs { type nat hook postrouting priority 100; }
  chain snat-ours { type nat hook postrouting priority 101; }
  chain filter-theirs { type filter hook input priority 0; }
  chain filter-ours { type filter hook input priority 1; }
}`;

export type Place = 'nat' | 'snat' | 'filter';
/** A rule as text of nft and as our expressions, and a chain that allows it. */
export type Case = readonly [place: Place, text: string, expressions: Uint8Array];

/** By place and text. */
export function casesOf<T>(
  compile: (list: readonly T[]) => Uint8Array,
  places: Readonly<Partial<Record<Place, Readonly<Record<string, readonly T[]>>>>>,
): readonly Case[] {
  return Object.entries(places).flatMap(([place, rules]) =>
    Object.entries(rules).map(([text, list]): Case => [place as Place, text, compile(list)]),
  );
}

/** Writes `text` by nft and `expressions` by the addon into twin chains, and compares these. */
export async function compareTwins(
  family: 'ip' | 'ip6',
  [place, text, expressions]: Case,
): Promise<void> {
  const { kernel, namespace } = await createKernel();
  const nfproto = family === 'ip' ? NFPROTO.IPv4 : NFPROTO.IPv6;
  const address = family === 'ip' ? 'ipv4_addr' : 'ipv6_addr';
  const setUp = objects.replaceAll('%', family).replaceAll('ADDR', address);
  await namespace.run('nft', ['-f', '-'], setUp);
  await namespace.run('nft', ['add', 'rule', family, 't', `${place}-theirs`, text]);
  const inTable = { family: nfproto, table: 't' };
  const chain = `${place}-ours`;
  await applied(kernel, { kind: 'ruleAdd', ...inTable, chain, expressions, comment: '' });

  const rules = await dumped(kernel, 'rule', { kind: 'rulesDump', ...inTable, chain: '' });
  const [theirs] = rules.filter((each) => each.chain === `${place}-theirs`);
  const [ours] = rules.filter((each) => each.chain === chain);
  expect(readRule(ours!.expressions)).toEqual(readRule(theirs!.expressions));
  expect(readRule(ours!.expressions)).toEqual(readRule(expressions));
  expect(ours!.expressions).toEqual(expressions);

  const listing = await namespace.run('nft', ['list', 'table', family, 't']);
  expect(lastLineOf(listing, chain)).toBe(lastLineOf(listing, `${place}-theirs`));
}

/** The last line of a chain in a listing: its rule. */
function lastLineOf(listing: string, chain: string): string {
  const [, body] = listing.split(`\tchain ${chain} {\n`);
  return body!.split('\n\t}')[0]!.split('\n').at(-1)!.trim();
}

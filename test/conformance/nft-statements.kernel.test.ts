/** Statements of modes compile to the same expressions as nft(8) writes for their text. */
import { expect, test } from 'vitest';
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
import { matchPort, matchPorts, noPort } from '../../src/kernel/nft/ports.ts';
import {
  compileRule,
  connectionProtocol,
  daddr,
  deleteFromSet,
  directionReply,
  dnatTo,
  dport,
  drop,
  goto,
  hashOf,
  inSet,
  inTurn,
  jump,
  l4proto,
  masquerade,
  matchCIDR,
  matchConnectionProtocol,
  matchIcmp,
  matchInterface,
  matchInterfacePrefix,
  matchLocalAddress,
  matchMark,
  matchOutputInterface,
  matchProtocol,
  matchRefusal,
  matchReset,
  matchSyn,
  matchSynAck,
  originalDaddr,
  originalDport,
  originalSaddr,
  packetsAbove,
  random,
  reject,
  replySaddr,
  replySport,
  resetTCP,
  type Statement,
  saddr,
  setMark,
  setTrace,
  sport,
  sportBits,
  stateNew,
  statusDNAT,
  statusUnconfirmed,
  statusYoungDNAT,
  toggleMark,
  updateMap,
  updateSet,
  vmap,
  withoutIPsec,
} from '../../src/kernel/nft/rule.ts';
import { connectionsOver, rateOver } from '../../src/kernel/nft/stateful.ts';
import { parseCIDR } from '../../src/net/address.ts';
import { createKernel } from './namespace.ts';
import { applied, dumped } from './ops.ts';
import { type Case, compareTwins } from './twins.ts';

const network = (text: string) => parseCIDR(text)!;
const statements = (...list: readonly Statement[]): Uint8Array => compileRule(list);

test.each<Case>([
  [
    'filter',
    'ip daddr 10.0.0.0/8 drop',
    statements(matchCIDR('daddr', '==', network('10.0.0.0/8')), drop),
  ],
  [
    'filter',
    'ip saddr != 10.16.0.0/12',
    statements(matchCIDR('saddr', '!=', network('10.16.0.0/12'))),
  ],
  ['filter', 'ip saddr 10.0.0.1', statements(matchCIDR('saddr', '==', network('10.0.0.1/32')))],
  ['filter', 'meta l4proto sctp', statements(matchProtocol('SCTP'))],
  ['filter', 'iifname "br0"', statements(matchInterface('==', 'br0'))],
  ['filter', 'iifname != "veth*"', statements(matchInterfacePrefix('!=', 'veth'))],
  ['filter', 'fib daddr type local', statements(matchLocalAddress('daddr'))],
  [
    'filter',
    'th dport 10000-19999 goto target',
    statements(matchPorts(10_000, 19_999), goto('target')),
  ],
  ['filter', 'meta l4proto udp th dport 53', statements(matchProtocol('UDP'), matchPort(53))],
  ['filter', 'tcp flags & (syn | ack) == syn', statements(matchProtocol('TCP'), matchSyn)],
  [
    'filter',
    'tcp flags & (syn | ack) == (syn | ack)',
    statements(matchProtocol('TCP'), matchSynAck),
  ],
  ['filter', 'tcp flags & rst == rst', statements(matchProtocol('TCP'), matchReset)],
  ['filter', 'meta l4proto tcp reject with tcp reset', statements(matchProtocol('TCP'), resetTCP)],
  [
    'filter',
    'tcp flags & (rst | ack) == (rst | ack) tcp sequence 0',
    statements(matchProtocol('TCP'), matchRefusal),
  ],
  ['filter', 'meta l4proto icmp', statements(matchIcmp('IPv4'))],
  ['filter', 'meta l4proto ipv6-icmp', statements(matchIcmp('IPv6'))],
  ['filter', 'oifname != "lo"', statements(matchOutputInterface('!=', 'lo'))],
  ['filter', 'ct direction reply', statements(directionReply)],
  ['filter', 'ct protocol tcp', statements(matchConnectionProtocol('TCP'))],
  ['filter', 'ct status & (assured | dnat) == dnat', statements(statusYoungDNAT)],
  ['filter', 'ct status & confirmed == 0', statements(statusUnconfirmed)],
  [
    'filter',
    'delete @d { ct original ip saddr }',
    statements(deleteFromSet('d', [originalSaddr('IPv4')])),
  ],
  [
    'filter',
    'ct protocol tcp ip daddr . ct protocol . ct original proto-dst vmap @services',
    statements(
      matchConnectionProtocol('TCP'),
      vmap([daddr('IPv4'), connectionProtocol, originalDport], 'services'),
    ),
  ],
  [
    'filter',
    'meta l4proto tcp ct reply ip saddr . meta l4proto . ct reply proto-src vmap @services',
    statements(matchProtocol('TCP'), vmap([replySaddr('IPv4'), l4proto, replySport], 'services')),
  ],
  ['filter', 'meta nftrace set 1', statements(setTrace)],
  ['filter', 'ct state new', statements(stateNew)],
  ['filter', 'ct status dnat', statements(statusDNAT)],
  ['filter', 'ct packets > 20', statements(packetsAbove(20))],
  ['filter', 'ct packets > 4000000000', statements(packetsAbove(4_000_000_000))],
  ['filter', 'rt ipsec missing', statements(withoutIPsec)],
  ['filter', 'meta mark & 0x4000 != 0', statements(matchMark(0x4000))],
  ['filter', 'meta mark set meta mark | 0x4000', statements(setMark(0x4000))],
  ['filter', 'meta mark set meta mark ^ 0x4000', statements(toggleMark(0x4000))],
  ['filter', 'reject', statements(reject('IPv4'))],
  ['filter', 'ct count over 100 drop', statements(connectionsOver(100), drop)],
  ['nat', 'limit rate over 7/second burst 7 packets drop', statements(rateOver(7), drop)],
  [
    'filter',
    'update @e { ip saddr . th sport & 254 }',
    statements(updateSet('e', [saddr('IPv4'), sportBits(254)])),
  ],
  ['filter', 'jump target', statements(jump('target'))],
  ['filter', 'goto target', statements(goto('target'))],
  ['filter', 'ip daddr != @s drop', statements(inSet([daddr('IPv4')], 's', '!='), drop)],
  [
    'nat',
    'ip daddr . meta l4proto . th dport vmap @services',
    statements(vmap([daddr('IPv4'), l4proto, dport], 'services')),
  ],
  [
    'nat',
    'ip daddr . meta l4proto . th dport & 0 vmap @services',
    statements(vmap([daddr('IPv4'), l4proto, noPort], 'services')),
  ],
  [
    'nat',
    'meta l4proto tcp dnat ip addr . port to ip daddr . meta l4proto . th dport . numgen random mod 30 map @endpoints',
    statements(
      matchProtocol('TCP'),
      dnatTo('IPv4', [daddr('IPv4'), l4proto, dport, random(30)], 'endpoints'),
    ),
  ],
  [
    'nat',
    'meta l4proto tcp dnat ip addr . port to ip daddr . meta l4proto . th dport . numgen inc mod 30 map @endpoints',
    statements(
      matchProtocol('TCP'),
      dnatTo('IPv4', [daddr('IPv4'), l4proto, dport, inTurn(30)], 'endpoints'),
    ),
  ],
  [
    'nat',
    'meta l4proto tcp dnat ip addr . port to ip daddr . meta l4proto . th dport . jhash ip saddr mod 30 seed 0x66616972 map @endpoints',
    statements(
      matchProtocol('TCP'),
      dnatTo('IPv4', [daddr('IPv4'), l4proto, dport, hashOf([saddr('IPv4')], 30)], 'endpoints'),
    ),
  ],
  [
    'nat',
    'meta l4proto tcp dnat ip addr . port to ip daddr . meta l4proto . th dport . jhash ip saddr . th sport mod 4093 seed 0x66616972 map @endpoints',
    statements(
      matchProtocol('TCP'),
      dnatTo(
        'IPv4',
        [daddr('IPv4'), l4proto, dport, hashOf([saddr('IPv4'), sport], 4093)],
        'endpoints',
      ),
    ),
  ],
  [
    'nat',
    'meta l4proto tcp dnat ip addr . port to meta l4proto . th dport . jhash ip saddr . th sport mod 7 seed 0x66616972 map @node-ports',
    statements(
      matchProtocol('TCP'),
      dnatTo('IPv4', [l4proto, dport, hashOf([saddr('IPv4'), sport], 7)], 'node-ports'),
    ),
  ],
  [
    'nat',
    'meta l4proto tcp dnat ip addr . port to ip saddr map @affinity',
    statements(matchProtocol('TCP'), dnatTo('IPv4', [saddr('IPv4')], 'affinity')),
  ],
  [
    'filter',
    'update @affinity { ip saddr timeout 3h : ip daddr . th dport }',
    statements(updateMap('affinity', [saddr('IPv4')], [daddr('IPv4'), dport], 10_800)),
  ],
  [
    'filter',
    'meta l4proto tcp ct original ip daddr . meta l4proto . ct original proto-dst vmap @services',
    statements(
      matchProtocol('TCP'),
      vmap([originalDaddr('IPv4'), l4proto, originalDport], 'services'),
    ),
  ],
  ['snat', 'masquerade fully-random', statements(masquerade)],
])('%s chain, family ip: `%s` compiles to what nft writes', async (...each) => {
  await compareTwins('ip', each);
});

test.each<Case>([
  ['filter', 'ip6 daddr fd00::/16', statements(matchCIDR('daddr', '==', network('fd00::/16')))],
  ['filter', 'ip6 saddr fd00::/12', statements(matchCIDR('saddr', '==', network('fd00::/12')))],
  ['filter', 'ip6 daddr @s', statements(inSet([daddr('IPv6')], 's'))],
  [
    'nat',
    'meta l4proto udp dnat ip6 addr . port to ip6 saddr map @affinity',
    statements(matchProtocol('UDP'), dnatTo('IPv6', [saddr('IPv6')], 'affinity')),
  ],
  [
    'nat',
    'meta l4proto tcp dnat ip6 addr . port to ip6 daddr . meta l4proto . th dport . jhash ip6 saddr mod 30 seed 0x66616972 map @endpoints',
    statements(
      matchProtocol('TCP'),
      dnatTo('IPv6', [daddr('IPv6'), l4proto, dport, hashOf([saddr('IPv6')], 30)], 'endpoints'),
    ),
  ],
  [
    'nat',
    'meta l4proto tcp dnat ip6 addr . port to ip6 daddr . meta l4proto . th dport . jhash ip6 saddr . th sport mod 4093 seed 0x66616972 map @endpoints',
    statements(
      matchProtocol('TCP'),
      dnatTo(
        'IPv6',
        [daddr('IPv6'), l4proto, dport, hashOf([saddr('IPv6'), sport], 4093)],
        'endpoints',
      ),
    ),
  ],
  ['filter', 'reject', statements(reject('IPv6'))],
  [
    'nat',
    'meta l4proto tcp dnat ip6 addr . port to ip6 daddr . meta l4proto . th dport . numgen random mod 7 map @endpoints',
    statements(
      matchProtocol('TCP'),
      dnatTo('IPv6', [daddr('IPv6'), l4proto, dport, random(7)], 'endpoints'),
    ),
  ],
])('%s chain, family ip6: `%s` compiles to what nft writes', async (...each) => {
  await compareTwins('ip6', each);
});

test('nft lists an update of 36 bytes of key and data, which its own version 1.0.6 cannot write', async () => {
  const { kernel, namespace } = await createKernel();
  const affinity = 'type ipv6_addr : ipv6_addr . inet_service; flags dynamic,timeout;';
  const ruleset = `table ip6 t {\n map affinity { ${affinity} }\n chain c { }\n }`;
  await namespace.run('nft', ['-f', '-'], ruleset);
  const update = updateMap('affinity', [saddr('IPv6')], [daddr('IPv6'), dport], 10_800);
  const expressions = compileRule([update]);
  const inChain = { family: NFPROTO.IPv6, table: 't', chain: 'c' };
  await applied(kernel, { kind: 'ruleAdd', ...inChain, expressions, comment: '' });
  const [rule] = await dumped(kernel, 'rule', { kind: 'rulesDump', ...inChain });
  expect(rule!.expressions).toEqual(expressions);
  const listing = await namespace.run('nft', ['list', 'chain', 'ip6', 't', 'c']);
  expect(listing).toContain('update @affinity { ip6 saddr timeout 3h : ip6 daddr . th dport }');
});

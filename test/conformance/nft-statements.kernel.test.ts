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
import { casesOf, compareTwins } from './twins.ts';

const network = (text: string) => parseCIDR(text)!;

test.each(
  casesOf(compileRule, {
    filter: {
      'ip daddr 10.0.0.0/8 drop': [matchCIDR('daddr', '==', network('10.0.0.0/8')), drop],
      'ip saddr != 10.16.0.0/12': [matchCIDR('saddr', '!=', network('10.16.0.0/12'))],
      'ip saddr 10.0.0.1': [matchCIDR('saddr', '==', network('10.0.0.1/32'))],
      'meta l4proto sctp': [matchProtocol('SCTP')],
      'iifname "br0"': [matchInterface('==', 'br0')],
      'iifname != "veth*"': [matchInterfacePrefix('!=', 'veth')],
      'fib daddr type local': [matchLocalAddress('daddr')],
      'th dport 10000-19999 goto target': [matchPorts(10_000, 19_999), goto('target')],
      'meta l4proto udp th dport 53': [matchProtocol('UDP'), matchPort(53)],
      'tcp flags & (syn | ack) == syn': [matchProtocol('TCP'), matchSyn],
      'tcp flags & (syn | ack) == (syn | ack)': [matchProtocol('TCP'), matchSynAck],
      'tcp flags & rst == rst': [matchProtocol('TCP'), matchReset],
      'meta l4proto tcp reject with tcp reset': [matchProtocol('TCP'), resetTCP],
      'tcp flags & (rst | ack) == (rst | ack) tcp sequence 0': [matchProtocol('TCP'), matchRefusal],
      'meta l4proto icmp': [matchIcmp('IPv4')],
      'meta l4proto ipv6-icmp': [matchIcmp('IPv6')],
      'oifname != "lo"': [matchOutputInterface('!=', 'lo')],
      'ct direction reply': [directionReply],
      'ct protocol tcp': [matchConnectionProtocol('TCP')],
      'ct status & (assured | dnat) == dnat': [statusYoungDNAT],
      'ct status & confirmed == 0': [statusUnconfirmed],
      'delete @d { ct original ip saddr }': [deleteFromSet('d', [originalSaddr('IPv4')])],
      'ct protocol tcp ip daddr . ct protocol . ct original proto-dst vmap @services': [
        matchConnectionProtocol('TCP'),
        vmap([daddr('IPv4'), connectionProtocol, originalDport], 'services'),
      ],
      'meta l4proto tcp ct reply ip saddr . meta l4proto . ct reply proto-src vmap @services': [
        matchProtocol('TCP'),
        vmap([replySaddr('IPv4'), l4proto, replySport], 'services'),
      ],
      'meta nftrace set 1': [setTrace],
      'ct state new': [stateNew],
      'ct status dnat': [statusDNAT],
      'ct packets > 20': [packetsAbove(20)],
      'ct packets > 4000000000': [packetsAbove(4_000_000_000)],
      'rt ipsec missing': [withoutIPsec],
      'meta mark & 0x4000 != 0': [matchMark(0x4000)],
      'meta mark set meta mark | 0x4000': [setMark(0x4000)],
      'meta mark set meta mark ^ 0x4000': [toggleMark(0x4000)],
      reject: [reject('IPv4')],
      'ct count over 100 drop': [connectionsOver(100), drop],
      'update @e { ip saddr . th sport & 254 }': [updateSet('e', [saddr('IPv4'), sportBits(254)])],
      'jump target': [jump('target')],
      'goto target': [goto('target')],
      'ip daddr != @s drop': [inSet([daddr('IPv4')], 's', '!='), drop],
      'update @affinity { ip saddr timeout 3h : ip daddr . th dport }': [
        updateMap('affinity', [saddr('IPv4')], [daddr('IPv4'), dport], 10_800),
      ],
      'meta l4proto tcp ct original ip daddr . meta l4proto . ct original proto-dst vmap @services':
        [matchProtocol('TCP'), vmap([originalDaddr('IPv4'), l4proto, originalDport], 'services')],
    },
    nat: {
      'limit rate over 7/second burst 7 packets drop': [rateOver(7), drop],
      'ip daddr . meta l4proto . th dport vmap @services': [
        vmap([daddr('IPv4'), l4proto, dport], 'services'),
      ],
      'ip daddr . meta l4proto . th dport & 0 vmap @services': [
        vmap([daddr('IPv4'), l4proto, noPort], 'services'),
      ],
      'meta l4proto tcp dnat ip addr . port to ip daddr . meta l4proto . th dport . numgen random mod 30 map @endpoints':
        [
          matchProtocol('TCP'),
          dnatTo('IPv4', [daddr('IPv4'), l4proto, dport, random(30)], 'endpoints'),
        ],
      'meta l4proto tcp dnat ip addr . port to ip daddr . meta l4proto . th dport . numgen inc mod 30 map @endpoints':
        [
          matchProtocol('TCP'),
          dnatTo('IPv4', [daddr('IPv4'), l4proto, dport, inTurn(30)], 'endpoints'),
        ],
      'meta l4proto tcp dnat ip addr . port to ip daddr . meta l4proto . th dport . jhash ip saddr mod 30 seed 0x66616972 map @endpoints':
        [
          matchProtocol('TCP'),
          dnatTo('IPv4', [daddr('IPv4'), l4proto, dport, hashOf([saddr('IPv4')], 30)], 'endpoints'),
        ],
      'meta l4proto tcp dnat ip addr . port to ip daddr . meta l4proto . th dport . jhash ip saddr . th sport mod 4093 seed 0x66616972 map @endpoints':
        [
          matchProtocol('TCP'),
          dnatTo(
            'IPv4',
            [daddr('IPv4'), l4proto, dport, hashOf([saddr('IPv4'), sport], 4093)],
            'endpoints',
          ),
        ],
      'meta l4proto tcp dnat ip addr . port to meta l4proto . th dport . jhash ip saddr . th sport mod 7 seed 0x66616972 map @node-ports':
        [
          matchProtocol('TCP'),
          dnatTo('IPv4', [l4proto, dport, hashOf([saddr('IPv4'), sport], 7)], 'node-ports'),
        ],
      'meta l4proto tcp dnat ip addr . port to ip saddr map @affinity': [
        matchProtocol('TCP'),
        dnatTo('IPv4', [saddr('IPv4')], 'affinity'),
      ],
    },
    snat: {
      'masquerade fully-random': [masquerade],
    },
  }),
)('%s chain, family ip: `%s` compiles to what nft writes', async (...each) => {
  await compareTwins('ip', each);
});

test.each(
  casesOf(compileRule, {
    filter: {
      'ip6 daddr fd00::/16': [matchCIDR('daddr', '==', network('fd00::/16'))],
      'ip6 saddr fd00::/12': [matchCIDR('saddr', '==', network('fd00::/12'))],
      'ip6 daddr @s': [inSet([daddr('IPv6')], 's')],
      reject: [reject('IPv6')],
    },
    nat: {
      'meta l4proto udp dnat ip6 addr . port to ip6 saddr map @affinity': [
        matchProtocol('UDP'),
        dnatTo('IPv6', [saddr('IPv6')], 'affinity'),
      ],
      'meta l4proto tcp dnat ip6 addr . port to ip6 daddr . meta l4proto . th dport . jhash ip6 saddr mod 30 seed 0x66616972 map @endpoints':
        [
          matchProtocol('TCP'),
          dnatTo('IPv6', [daddr('IPv6'), l4proto, dport, hashOf([saddr('IPv6')], 30)], 'endpoints'),
        ],
      'meta l4proto tcp dnat ip6 addr . port to ip6 daddr . meta l4proto . th dport . jhash ip6 saddr . th sport mod 4093 seed 0x66616972 map @endpoints':
        [
          matchProtocol('TCP'),
          dnatTo(
            'IPv6',
            [daddr('IPv6'), l4proto, dport, hashOf([saddr('IPv6'), sport], 4093)],
            'endpoints',
          ),
        ],
      'meta l4proto tcp dnat ip6 addr . port to ip6 daddr . meta l4proto . th dport . numgen random mod 7 map @endpoints':
        [
          matchProtocol('TCP'),
          dnatTo('IPv6', [daddr('IPv6'), l4proto, dport, random(7)], 'endpoints'),
        ],
    },
  }),
)('%s chain, family ip6: `%s` compiles to what nft writes', async (...each) => {
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

/**
 * Every form of rule that iptables mode writes (behaviour document 7.2, 7.4 to 7.7), as text for
 * iptables-restore like kube-proxy's, and as our data.
 */
import { localAddress } from '../../src/kernel/xt/matches/addrtype.ts';
import { comment } from '../../src/kernel/xt/matches/comment.ts';
import { ctState } from '../../src/kernel/xt/matches/conntrack.ts';
import { markIs } from '../../src/kernel/xt/matches/mark.ts';
import { countedIn } from '../../src/kernel/xt/matches/nfacct.ts';
import { anyPort, dport, openTo } from '../../src/kernel/xt/matches/port.ts';
import { recentCheck, recentSet } from '../../src/kernel/xt/matches/recent.ts';
import { oneOf } from '../../src/kernel/xt/matches/statistic.ts';
import { type AddressMatch, is, isNot, type Match, type XtRule } from '../../src/kernel/xt/rule.ts';
import type { XtTable } from '../../src/kernel/xt/tables.ts';
import { dnat } from '../../src/kernel/xt/targets/dnat.ts';
import { orMark, xorMark } from '../../src/kernel/xt/targets/mark.ts';
import { masquerade } from '../../src/kernel/xt/targets/masquerade.ts';
import { reject, rejectByReset } from '../../src/kernel/xt/targets/reject.ts';
import { accept, drop, jump, returnToCaller } from '../../src/kernel/xt/targets/verdict.ts';
import { type Family, parseAddress, parseCIDR } from '../../src/net/address.ts';
import type { Protocol } from '../../src/net/protocol.ts';

export interface XtCase {
  readonly table: XtTable;
  readonly chain: string;
  /** What follows `-A CHAIN `. */
  readonly words: string;
  readonly rule: XtRule;
}

const svc = 'KUBE-SVC-XPGD46QRK7WJZT7O';
const svl = 'KUBE-SVL-XPGD46QRK7WJZT7O';
const ext = 'KUBE-EXT-XPGD46QRK7WJZT7O';
const fw = 'KUBE-FW-XPGD46QRK7WJZT7O';
const sep = 'KUBE-SEP-SXIVWICOYRO3J4NJ';
const name = 'ns1/svc1:p80';
const mark = 0x4000;

/** A named counter that a rule counts in, and that must exist. */
export const xtCounter = 'ct_state_invalid_dropped_pkts';

/** Chains of the rules and of their jumps, in addition to the built-in ones. */
export const xtChains: Readonly<Record<XtTable, readonly string[]>> = {
  filter: [
    'KUBE-SERVICES',
    'KUBE-EXTERNAL-SERVICES',
    'KUBE-NODEPORTS',
    'KUBE-FORWARD',
    'KUBE-PROXY-FIREWALL',
    'KUBE-FIREWALL',
    'KUBE-PROXY-CANARY',
  ],
  nat: [
    'KUBE-SERVICES',
    'KUBE-NODEPORTS',
    'KUBE-POSTROUTING',
    'KUBE-MARK-MASQ',
    'KUBE-PROXY-CANARY',
    ...[svc, svl, ext, fw, sep],
  ],
  mangle: ['KUBE-PROXY-CANARY'],
};

const isInFamily = {
  IPv4: {
    vip: '172.30.0.41',
    endpoint: '10.180.0.1',
    node: '192.0.2.7',
    pods: '10.128.0.0/14',
    range: '203.0.113.0/25',
    loopback: '127.0.0.0/8',
    to: '10.180.0.1:80',
  },
  IPv6: {
    vip: 'fd00:1::41',
    endpoint: 'fd00:10:180::1',
    node: '2001:db8::7',
    pods: 'fd00:10::/45',
    range: '2001:db8:f::/48',
    loopback: '::1/128',
    to: '[fd00:10:180::1]:80',
  },
} as const;

function cidr(text: string) {
  const isHost = !text.includes('/');
  return parseCIDR(isHost ? `${text}/${text.includes(':') ? 128 : 32}` : text)!;
}

const to = (text: string): AddressMatch => is(cidr(text));
const notTo = (text: string): AddressMatch => isNot(cidr(text));
const note = (text: string): readonly Match[] => [comment(text)];

export function xtCases(family: Family): XtCase[] {
  return [
    ...jumps(),
    ...fixed(family),
    ...filterRules(family),
    ...dispatch(family),
    ...serviceChains(family),
    ...protocols(family),
  ];
}

function jumps(): XtCase[] {
  const isNew = '-m conntrack --ctstate NEW';
  const line = (
    table: XtTable,
    [chain, target]: readonly [string, string],
    text: string,
    state?: typeof isNew,
  ): XtCase => {
    const matches = [...(state === undefined ? [] : [ctState(['NEW'])]), comment(text)];
    const words = `${state ?? ''} -m comment --comment "${text}" -j ${target}`;
    return { table, chain, words, rule: { matches, target: jump(target) } };
  };
  const outside = 'kubernetes externally-visible service portals';
  return [
    line('filter', ['INPUT', 'KUBE-EXTERNAL-SERVICES'], outside, isNew),
    line('filter', ['INPUT', 'KUBE-NODEPORTS'], 'kubernetes health check service ports'),
    line('filter', ['FORWARD', 'KUBE-SERVICES'], 'kubernetes service portals', isNew),
    line('filter', ['FORWARD', 'KUBE-FORWARD'], 'kubernetes forwarding rules'),
    line('nat', ['OUTPUT', 'KUBE-SERVICES'], 'kubernetes service portals'),
    line('nat', ['PREROUTING', 'KUBE-SERVICES'], 'kubernetes service portals'),
    line('nat', ['POSTROUTING', 'KUBE-POSTROUTING'], 'kubernetes postrouting rules'),
    {
      table: 'filter',
      chain: 'OUTPUT',
      words: '-j KUBE-FIREWALL',
      rule: { target: jump('KUBE-FIREWALL') },
    },
  ];
}

function fixed(family: Family): XtCase[] {
  const { loopback } = isInFamily[family];
  const snat = 'kubernetes service traffic requiring SNAT';
  const postrouting = { table: 'nat', chain: 'KUBE-POSTROUTING' } as const;
  const forward = { table: 'filter', chain: 'KUBE-FORWARD' } as const;
  return [
    {
      ...postrouting,
      words: '-m mark ! --mark 0x00004000/0x00004000 -j RETURN',
      rule: { matches: [markIs(mark, '!=')], target: returnToCaller },
    },
    {
      ...postrouting,
      words: '-j MARK --xor-mark 0x00004000',
      rule: { target: xorMark(mark) },
    },
    {
      ...postrouting,
      words: `-m comment --comment "${snat}" -j MASQUERADE --random-fully`,
      rule: { matches: note(snat), target: masquerade },
    },
    {
      table: 'nat',
      chain: 'KUBE-MARK-MASQ',
      words: '-j MARK --or-mark 0x00004000',
      rule: { target: orMark(mark) },
    },
    {
      table: 'filter',
      chain: 'KUBE-FIREWALL',
      words: `-m comment --comment "block incoming localnet connections" -d ${loopback} ! -s ${loopback} -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP`,
      rule: {
        source: notTo(loopback),
        destination: to(loopback),
        matches: [
          comment('block incoming localnet connections'),
          ctState(['RELATED', 'ESTABLISHED', 'DNAT'], '!='),
        ],
        target: drop,
      },
    },
    {
      ...forward,
      words: '-m conntrack --ctstate INVALID -j DROP',
      rule: { matches: [ctState(['INVALID'])], target: drop },
    },
    {
      ...forward,
      words: `-m conntrack --ctstate INVALID -m nfacct --nfacct-name ${xtCounter} -j DROP`,
      rule: { matches: [ctState(['INVALID']), countedIn(xtCounter)], target: drop },
    },
    {
      ...forward,
      words:
        '-m comment --comment "kubernetes forwarding rules" -m mark --mark 0x00004000/0x00004000 -j ACCEPT',
      rule: { matches: [comment('kubernetes forwarding rules'), markIs(mark)], target: accept },
    },
    {
      ...forward,
      words:
        '-m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
      rule: {
        matches: [
          comment('kubernetes forwarding conntrack rule'),
          ctState(['ESTABLISHED', 'RELATED']),
        ],
        target: accept,
      },
    },
  ];
}

function filterRules(family: Family): XtCase[] {
  const { vip } = isInFamily[family];
  const none = `${name} has no endpoints`;
  const noLocal = `${name} has no local endpoints`;
  const firewall = `${name} traffic not accepted by ${fw}`;
  const health = `${name} health check node port`;
  const base = { destination: to(vip), protocol: 'TCP' } as const;
  return [
    {
      table: 'filter',
      chain: 'KUBE-SERVICES',
      words: `-m comment --comment "${none}" -m tcp -p tcp -d ${vip} --dport 80 -j REJECT`,
      rule: { ...base, matches: [comment(none), dport(80)], target: reject },
    },
    {
      table: 'filter',
      chain: 'KUBE-SERVICES',
      words: `-m comment --comment "${none}" -m tcp -p tcp -d ${vip} --dport 80 ! --tcp-flags SYN,ACK SYN -j REJECT --reject-with tcp-reset`,
      rule: { ...base, matches: [comment(none), openTo(80)], target: rejectByReset },
    },
    {
      table: 'filter',
      chain: 'KUBE-EXTERNAL-SERVICES',
      words: `-m comment --comment "${noLocal}" -m tcp -p tcp -d ${vip} --dport 80 -j DROP`,
      rule: { ...base, matches: [comment(noLocal), dport(80)], target: drop },
    },
    {
      table: 'filter',
      chain: 'KUBE-EXTERNAL-SERVICES',
      words: `-m comment --comment "${none}" -m addrtype --dst-type LOCAL -m tcp -p tcp --dport 3001 -j REJECT`,
      rule: {
        protocol: 'TCP',
        matches: [comment(none), localAddress('destination'), dport(3001)],
        target: reject,
      },
    },
    {
      table: 'filter',
      chain: 'KUBE-PROXY-FIREWALL',
      words: `-m comment --comment "${firewall}" -m tcp -p tcp -d ${vip} --dport 80 -j DROP`,
      rule: { ...base, matches: [comment(firewall), dport(80)], target: drop },
    },
    {
      table: 'filter',
      chain: 'KUBE-NODEPORTS',
      words: `-m comment --comment "${health}" -m tcp -p tcp --dport 30000 -j ACCEPT`,
      rule: { protocol: 'TCP', matches: [comment(health), dport(30000)], target: accept },
    },
  ];
}

function dispatch(family: Family): XtCase[] {
  const { vip, node, loopback } = isInFamily[family];
  const clusterIP = `${name} cluster IP`;
  const last = 'kubernetes service nodeports; NOTE: this must be the last rule in this chain';
  const services = { table: 'nat', chain: 'KUBE-SERVICES' } as const;
  return [
    {
      ...services,
      words: `-m comment --comment "${clusterIP}" -m tcp -p tcp -d ${vip} --dport 80 -j ${svc}`,
      rule: {
        destination: to(vip),
        protocol: 'TCP',
        matches: [comment(clusterIP), dport(80)],
        target: jump(svc),
      },
    },
    {
      table: 'nat',
      chain: 'KUBE-NODEPORTS',
      words: `-m comment --comment ${name} -m tcp -p tcp --dport 3001 -j ${ext}`,
      rule: { protocol: 'TCP', matches: [comment(name), dport(3001)], target: jump(ext) },
    },
    {
      table: 'nat',
      chain: 'KUBE-NODEPORTS',
      words: `-m comment --comment ${name} -m tcp -p tcp -d ${loopback} --dport 3001 -j ${ext}`,
      rule: {
        destination: to(loopback),
        protocol: 'TCP',
        matches: [comment(name), dport(3001)],
        target: jump(ext),
      },
    },
    {
      ...services,
      words: `-m comment --comment "${last}" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS`,
      rule: {
        matches: [comment(last), localAddress('destination')],
        target: jump('KUBE-NODEPORTS'),
      },
    },
    {
      ...services,
      words: `-m comment --comment "${last}" -m addrtype --dst-type LOCAL ! -d ${loopback} -j KUBE-NODEPORTS`,
      rule: {
        destination: notTo(loopback),
        matches: [comment(last), localAddress('destination')],
        target: jump('KUBE-NODEPORTS'),
      },
    },
    {
      ...services,
      words: `-m comment --comment "${last}" -d ${node} -j KUBE-NODEPORTS`,
      rule: { destination: to(node), matches: note(last), target: jump('KUBE-NODEPORTS') },
    },
  ];
}

function serviceChains(family: Family): XtCase[] {
  const { vip, endpoint, pods, range } = isInFamily[family];
  const clusterIP = `${name} cluster IP`;
  const masq = jump('KUBE-MARK-MASQ');
  const pod = `pod traffic for ${name} external destinations`;
  const local = `route LOCAL traffic for ${name} external destinations`;
  const other = `other traffic to ${name} will be dropped by KUBE-PROXY-FIREWALL`;
  const arrow = `${name} -> ${isInFamily[family].to}`;
  const inChain = (chain: string, words: string, rule: XtRule): XtCase => {
    return { table: 'nat', chain, words, rule };
  };
  const masked = {
    destination: to(vip),
    protocol: 'TCP',
    matches: [comment(clusterIP), dport(80)],
    target: masq,
  } as const;
  const words = `-m comment --comment "${clusterIP}" -m tcp -p tcp -d ${vip} --dport 80`;
  return [
    inChain(svc, `${words} -j KUBE-MARK-MASQ`, masked),
    inChain(svc, `${words} ! -s ${pods} -j KUBE-MARK-MASQ`, { ...masked, source: notTo(pods) }),
    inChain(svc, `${words} ! -i cbr0 -j KUBE-MARK-MASQ`, {
      ...masked,
      inputInterface: { operator: '!=', name: 'cbr0' },
    }),
    inChain(svc, `${words} ! -i veth+ -j KUBE-MARK-MASQ`, {
      ...masked,
      inputInterface: { operator: '!=', name: 'veth+' },
    }),
    inChain(ext, `-m comment --comment "${pod}" -s ${pods} -j ${svc}`, {
      source: to(pods),
      matches: note(pod),
      target: jump(svc),
    }),
    inChain(ext, `-m comment --comment "${pod}" -i veth+ -j ${svc}`, {
      inputInterface: { operator: '==', name: 'veth+' },
      matches: note(pod),
      target: jump(svc),
    }),
    inChain(ext, `-m comment --comment "${local}" -m addrtype --src-type LOCAL -j ${svc}`, {
      matches: [comment(local), localAddress('source')],
      target: jump(svc),
    }),
    inChain(ext, `-j ${svl}`, { target: jump(svl) }),
    inChain(fw, `-m comment --comment "${name} loadbalancer IP" -s ${range} -j ${ext}`, {
      source: to(range),
      matches: note(`${name} loadbalancer IP`),
      target: jump(ext),
    }),
    inChain(fw, `-m comment --comment "any source" -s ${family === 'IPv4' ? '0.0.0.0' : '::'}/0`, {
      source: to(family === 'IPv4' ? '0.0.0.0/0' : '::/0'),
      matches: note('any source'),
    }),
    inChain(fw, `-m comment --comment "${other}"`, { matches: note(other) }),
    inChain(
      svc,
      `-m comment --comment "${arrow}" -m recent --name ${sep} --rcheck --seconds 10800 --reap -j ${sep}`,
      { matches: [comment(arrow), recentCheck(sep, 10_800)], target: jump(sep) },
    ),
    ...[2, 3, 7, 30, 999].map((n) =>
      inChain(
        svc,
        `-m comment --comment "${arrow}" -m statistic --mode random --probability ${(1 / n).toFixed(10)} -j ${sep}`,
        { matches: [comment(arrow), oneOf(n)], target: jump(sep) },
      ),
    ),
    inChain(svl, `-j ${sep}`, { target: jump(sep) }),
    inChain(sep, `-m comment --comment ${name} -s ${endpoint} -j KUBE-MARK-MASQ`, {
      source: to(endpoint),
      matches: note(name),
      target: masq,
    }),
  ];
}

/** Ports and translations of each protocol. */
function protocols(family: Family): XtCase[] {
  const { vip, endpoint } = isInFamily[family];
  const target = dnat(parseAddress(endpoint)!, 80);
  return (['TCP', 'UDP', 'SCTP'] as const).flatMap((protocol: Protocol): XtCase[] => {
    const lower = protocol.toLowerCase();
    const option = `-m ${lower} -p ${lower}`;
    const destination = `-j DNAT --to-destination ${isInFamily[family].to}`;
    return [
      {
        table: 'nat',
        chain: 'KUBE-SERVICES',
        words: `-m comment --comment "it's \\"quoted\\"" ${option} -d ${vip} --dport 53 -j ${svc}`,
        rule: {
          destination: to(vip),
          protocol,
          matches: [comment(`it's "quoted"`), dport(53)],
          target: jump(svc),
        },
      },
      {
        table: 'nat',
        chain: sep,
        words: `-m comment --comment word -m recent --name ${sep} --set ${option} ${destination}`,
        rule: { protocol, matches: [comment('word'), recentSet(sep), anyPort], target },
      },
      {
        table: 'nat',
        chain: svc,
        words: `${option} -m statistic --mode random --probability 0.5000000000 ${destination}`,
        rule: { protocol, matches: [anyPort, oneOf(2)], target },
      },
      { table: 'nat', chain: svl, words: `-p ${lower} ${destination}`, rule: { protocol, target } },
      {
        table: 'nat',
        chain: svl,
        words: `-p ${lower} -j DNAT --to-destination ${endpoint}`,
        rule: { protocol, target: dnat(parseAddress(endpoint)!, undefined) },
      },
      // Of TCP and UDP, iptables 1.8.9 writes ranges in a form of its own.
      ...(protocol === 'SCTP'
        ? [
            {
              table: 'nat' as const,
              chain: 'KUBE-SERVICES',
              words: `-d ${vip} -p ${lower} -m ${lower} --dport 5000:5999 -j ${svc}`,
              rule: {
                destination: to(vip),
                protocol,
                matches: [dport(5000, 5999)],
                target: jump(svc),
              },
            },
          ]
        : []),
    ];
  });
}

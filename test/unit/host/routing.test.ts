import { describe, expect, it } from 'vitest';
import { leadsInto, parseRoute, routesFrom, suspectsOf } from '../../../src/host/routing.ts';
import { type Family, parseCIDR } from '../../../src/net/address.ts';
import { address } from '../state/build.ts';

/** As Linux 6.18 prints them. */
const ipv4 = [
  'Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT   ',
  'eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0    ',
  '*\t0007F40A\t00000000\t0201\t0\t0\t0\t00FFFFFF\t0\t0\t0   ',
  'lo\t0009F40A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0   ',
  '*\t0909F40A\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0   ',
  '*\t4005F40A\t00000000\t0005\t0\t0\t0\tC0FFFFFF\t0\t0\t0   ',
  'cali1\t4105F40A\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0   ',
];
const zero = '0'.repeat(32);
const noRoute = `${zero} 00 ${zero} 00 ${zero} ffffffff 00000001 00000000 00200200       lo`;
const ipv6 = [
  `fd000000000000000000000000000000 40 ${zero} 00 ${zero} 00000400 00000001 00000000 00200200       lo`,
  noRoute,
  `${zero.slice(1)}1 80 ${zero} 00 ${zero} 00000000 00000002 00000000 80200001       lo`,
];
const ipv6Default = `${zero} 00 ${zero} 00 fe80000000000000000000000000001 00000400 1 0 00000003     eth0`;

function judged(family: Family, lines: readonly string[], ...texts: readonly string[]) {
  const entries = lines.flatMap((line) => parseRoute(family, line) ?? []);
  const isSuspect = suspectsOf(family, routesFrom(family, entries));
  if (isSuspect === undefined) return undefined;
  return texts.filter((text) => {
    return isSuspect(`xy${Buffer.from(address(text).bytes).toString('latin1')}`, 2);
  });
}

it('a route leads into the block of pods if it has a device, and is not wider', () => {
  const blocks = ['10.244.0.0/16', 'fd00:244::/64'].map((text) => parseCIDR(text)!);
  const devicesOf = (family: Family, lines: readonly string[]) =>
    lines
      .flatMap((line) => parseRoute(family, line) ?? [])
      .filter((one) => leadsInto(one, blocks))
      .map(({ device }) => device);
  expect(devicesOf('IPv4', ipv4)).toEqual(['cali1']);
  const pods = `fd000244${zero.slice(8)} 40 ${zero} 00 ${zero} 00000100 1 0 00000001     cni0`;
  expect(devicesOf('IPv6', [...ipv6, pods, pods.replace(' 40 ', ' 3f ')])).toEqual(['cni0']);
});

describe('an address is suspect', () => {
  it('if the longest prefix is of a route without a device', () => {
    const good = ['8.8.8.8', '10.244.9.1', '10.244.5.65', '10.244.5.1', '10.244.6.255'];
    const bad = ['10.244.7.1', '10.244.9.9', '10.244.5.64', '10.244.5.127'];
    expect(judged('IPv4', ipv4, ...good, ...bad)).toEqual(bad);
  });

  it('if no prefix contains it', () => {
    const [title, , ...withoutDefault] = ipv4;
    const found = judged('IPv4', [title!, ...withoutDefault], '8.8.8.8', '10.244.9.1');
    expect(found).toEqual(['8.8.8.8']);
  });

  it('in IPv6 if the route rejects', () => {
    expect(judged('IPv6', ipv6, 'fd00::1', 'fd00:0:0:1::1', '::1')).toEqual([
      'fd00::1',
      'fd00:0:0:1::1',
    ]);
    expect(judged('IPv6', [...ipv6, ipv6Default], 'fd00::1', 'fd00:0:0:1::1')).toEqual(['fd00::1']);
  });

  it('in IPv6 if the only route is for packets of some senders', () => {
    const ofSource = ipv6Default.replace(`${zero} 00 fe80`, `${zero} 40 fe80`);
    expect(judged('IPv6', [noRoute, ofSource], '2001:db8::1')).toEqual(['2001:db8::1']);
  });

  it('never if there is a default route, and no route rejects', () => {
    expect(judged('IPv4', ipv4.slice(0, 2))).toBeUndefined();
    expect(judged('IPv6', [noRoute, ipv6Default])).toBeUndefined();
  });
});

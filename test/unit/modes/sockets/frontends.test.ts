import { describe, expect, it } from 'vitest';
import type { Environment } from '../../../../src/modes/mode.ts';
import {
  boundAddresses,
  concernedBy,
  refusedAddresses,
} from '../../../../src/modes/own-addresses.ts';
import {
  type ServedFrontend,
  type Setting,
  sameFrontend,
  servedFrontends,
} from '../../../../src/modes/sockets/frontends.ts';
import { type Address, formatAddress } from '../../../../src/net/address.ts';
import type { Forwarding } from '../../../../src/state/types.ts';
import {
  address,
  cidr,
  type Endpoint,
  ready,
  readyLocal,
  resolveOne,
  service,
  slice,
} from '../../state/build.ts';

const environment: Environment = {
  serviceCIDRs: [],
  nodePortAddresses: [address('192.168.0.1')],
  hostAddresses: [address('192.168.0.1'), address('203.0.113.9')],
};

const setting: Setting = {
  config: {
    family: 'IPv4',
    localDetector: { kind: 'cidr', cidr: cidr('10.244.0.0/16') },
    localhostNodePorts: false,
  },
  environment,
};

const here = '10.244.0.1';
const there = '10.244.1.1';

function forwarding(
  fields: Parameters<typeof service>[0],
  endpoints: Readonly<Record<string, Endpoint>> = { [here]: readyLocal, [there]: ready },
): Forwarding {
  return resolveOne(service(fields), [slice(endpoints)]);
}

/** `ADDRESS:PORT` with the endpoints of each kind of client. */
function texts(frontends: readonly ServedFrontend[]): Record<string, string[]> {
  return Object.fromEntries(
    frontends.map(({ address: at, port, pools }) => [
      `${formatAddress(at.bytes)}:${port}`,
      [pools.node, pools.pod, pools.outside].map((pool) => pool.texts().join(' ')),
    ]),
  );
}

const local = { externalTrafficPolicy: 'Local', type: 'LoadBalancer' } as const;
const nodePort = { name: 'http', protocol: 'TCP', port: 80, nodePort: 30_080 } as const;

describe('the sockets of frontends', () => {
  it('are one for each address and port, and for node ports at each address that accepts them', () => {
    const both = `${here}:8080 ${there}:8080`;
    const all = { ...local, loadBalancerIPs: ['203.0.113.1'], ports: [nodePort] };
    expect(texts(servedFrontends(forwarding(all), setting))).toEqual({
      '10.96.0.1:80': [both, both, both],
      '203.0.113.1:80': [both, both, `${here}:8080`],
      '192.168.0.1:30080': [both, both, `${here}:8080`],
    });
  });

  it('include node ports on 127.0.0.1 if configured', () => {
    const config = { ...setting.config, localhostNodePorts: true };
    const of = forwarding({ type: 'NodePort', ports: [nodePort] });
    expect(Object.keys(texts(servedFrontends(of, { ...setting, config })))).toEqual([
      '10.96.0.1:80',
      '192.168.0.1:30080',
      '127.0.0.1:30080',
    ]);
  });

  it('are not opened without endpoints, except for UDP that must be dropped', () => {
    expect(servedFrontends(forwarding({}, {}), setting)).toEqual([]);
    const dropped = { internalTrafficPolicy: 'Local' as const };
    expect(servedFrontends(forwarding(dropped, { [there]: ready }), setting)).toEqual([]);
    const ports = [{ ...nodePort, nodePort: 0, protocol: 'UDP' as const }];
    const of = resolveOne(service({ ...dropped, ports }), [
      { ...slice({ [there]: ready }), ports: [{ name: 'http', port: 8080, protocol: 'UDP' }] },
    ]);
    expect(texts(servedFrontends(of, setting))).toEqual({ '10.96.0.1:80': ['', '', ''] });
  });

  it('are reused until a property changes', () => {
    const [one] = servedFrontends(forwarding(local), setting);
    const [same] = servedFrontends(forwarding(local), setting);
    expect(sameFrontend(one!, same!)).toBe(true);
    for (const other of [
      forwarding({ ...local, affinityTimeoutSeconds: 10 }),
      forwarding(local, { [there]: ready }),
    ]) {
      expect(sameFrontend(one!, servedFrontends(other, setting)[0]!)).toBe(false);
    }
    const vip = { ...local, loadBalancerIPs: ['203.0.113.1'] };
    const [, outside] = servedFrontends(forwarding(vip), setting);
    const guarded = forwarding({ ...vip, loadBalancerSourceRanges: ['192.0.2.0/24'] });
    const [nodeIn, nodeOut] = [true, false].map((nodeInSourceRanges) => {
      return servedFrontends({ ...guarded, nodeInSourceRanges }, setting)[1]!;
    });
    expect(sameFrontend(nodeIn!, nodeOut!)).toBe(false);
    const ports = [nodePort];
    const every = forwarding({ ...vip, ports, loadBalancerSourceRanges: ['192.0.2.0/24'] });
    const judged = (guardsAll?: true) =>
      servedFrontends({ ...every, guardsAll }, setting).map((one) => one.clients !== undefined);
    expect(judged()).toEqual([false, true, false]);
    expect(judged(true)).toEqual([false, true, true]);
    const moved = { ...setting, environment: { ...environment, hostAddresses: [] } };
    expect(sameFrontend(outside!, servedFrontends(forwarding(vip), moved)[1]!)).toBe(false);
  });
});

describe('the addresses of frontends', () => {
  it('are bound, except those of the machine', () => {
    const of = forwarding({ externalIPs: ['203.0.113.9', '203.0.113.10'] });
    const text = (addresses: ReturnType<typeof boundAddresses>): string[] =>
      addresses.map(({ bytes }) => formatAddress(bytes));
    expect(text(boundAddresses(of, environment))).toEqual(['10.96.0.1', '203.0.113.10']);
    expect(text(refusedAddresses(of, environment))).toEqual(['203.0.113.9']);
  });
});

it('a change of addresses concerns frontends at them, node ports, and who treats the node apart', () => {
  const [one, other] = ['192.168.0.1', '203.0.113.9'].map((text) => address(text)) as [
    Address,
    Address,
  ];
  const was = { serviceCIDRs: [], nodePortAddresses: [one], hostAddresses: [one] };
  const of = {
    inside: forwarding({}),
    atOther: forwarding({ externalIPs: ['203.0.113.9'] }),
    nodePort: forwarding({ type: 'NodePort', ports: [nodePort] }),
    byClient: forwarding({ externalIPs: ['198.51.100.1'], externalTrafficPolicy: 'Local' }),
  };
  const concerned = (now: Partial<Environment>): string[] => {
    const isConcerned = concernedBy(was, { ...was, ...now });
    return Object.entries(of).flatMap(([name, each]) => (isConcerned(each) ? [name] : []));
  };
  expect(concerned({})).toEqual([]);
  expect(concerned({ nodePortAddresses: [one, other] })).toEqual(['atOther', 'nodePort']);
  expect(concerned({ hostAddresses: [one, other] })).toEqual(['atOther', 'byClient']);
});

/** What is found where a packet got through all rules of a hook and was not routed on. */
import { expect, it } from 'vitest';
import type { Route } from '../../../../src/host/reach.ts';
import { faultFinder } from '../../../../src/tools/trace/routing-fault.ts';
import { filesOf } from '../../host/machine.ts';
import { address } from '../../state/build.ts';

const [client, endpoint] = ['10.244.0.9', '10.244.0.5'] as const;
const on = { '/proc/sys/net/ipv4/ip_forward': '1', '/proc/sys/net/ipv6/conf/all/forwarding': '1' };
const port = (name: string, hairpin: string) => ({
  [`/sys/class/net/cni0/brif/${name}/hairpin_mode`]: hairpin,
});

interface Case {
  readonly files?: Readonly<Record<string, string>>;
  readonly way?: Route;
  readonly source?: string;
  readonly by?: string | undefined;
}

function faultOf({ files = {}, source = client, way = 'found', ...at }: Case): Promise<string> {
  const all: Readonly<Record<string, string>> = { ...on, ...files };
  const find = faultFinder({
    ...filesOf(all),
    routesTo: async () => [way],
  });
  return find({
    family: 'IPv4',
    interface: 'by' in at ? at.by : 'cni0',
    source: address(source).bytes,
    destination: address(endpoint).bytes,
  });
}

const hairpins = { ...port('veth1', '0'), ...port('veth2', '1') };
const strict = { '/proc/sys/net/ipv4/conf/cni0/rp_filter': '1' };

it.each<[string, Case, string]>([
  [
    'a bridge without hairpin mode, of a client that is its own endpoint',
    { source: endpoint, files: { ...hairpins, ...strict } },
    'it is for its own sender, and bridge cni0 sends nothing back by the port that it came by (hairpin_mode is 0: veth1)',
  ],
  [
    'a bridge of many ports, of which five are named',
    {
      source: endpoint,
      files: Object.assign({}, ...'abcdef'.split('').map((one) => port(one, '0'))),
    },
    'it is for its own sender, and bridge cni0 sends nothing back by the port that it came by (hairpin_mode is 0: a, b, c, d, e)',
  ],
  [
    'no forwarding',
    { files: { ...strict, '/proc/sys/net/ipv4/ip_forward': '0' } },
    'net.ipv4.ip_forward is 0: the node forwards no packets of pods to endpoints',
  ],
  ['no route', { way: 'no_route' }, 'no route (ip route get 10.244.0.5)'],
  [
    'a strict rp_filter',
    { files: strict },
    'rp_filter is 1 for cni0, which lets 10.244.0.9 in only if it is the way back to it',
  ],
])('the fault is found: %s', async (_, of, fault) => {
  expect(await faultOf(of)).toBe(fault);
});

it.each<[string, Case]>([
  ['another client on a bridge', { files: hairpins }],
  ['a bridge all of whose ports have hairpin mode', { source: endpoint, files: port('v', '1') }],
  [
    'a loose rp_filter of all',
    { files: { ...strict, '/proc/sys/net/ipv4/conf/all/rp_filter': '2' } },
  ],
  [
    'what the node itself sends',
    { by: undefined, files: { ...strict, '/proc/sys/net/ipv4/ip_forward': '0' } },
  ],
])('no fault is made up: %s', async (_, of) => {
  expect(await faultOf(of)).toBe(
    'there is a route, and neither forwarding nor rp_filter explains it',
  );
});

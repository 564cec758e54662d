import { describe, expect, it } from 'vitest';
import { NFPROTO } from '../../../../src/kernel/nft/constants.ts';
import { iptablesMode, likeIptables } from '../../../../src/modes/iptables/mode.ts';
import { nftablesMode } from '../../../../src/modes/nftables/mode.ts';
import type { Family } from '../../../../src/net/address.ts';
import type { EndpointSlice, Service } from '../../../../src/state/types.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { ready, readyLocal, service } from '../../state/build.ts';
import { asIPv4, beyond } from '../golden.ts';
import { at, endpoints, everyKind, everyProtocol, Stage } from '../nftables/stage.ts';
import { save } from './save.ts';

const here = '10.244.0.5';
const away = '10.244.1.6';
const both = { [away]: ready, [here]: readyLocal };
const local = { internalTrafficPolicy: 'Local', externalTrafficPolicy: 'Local' } as const;

type Served = readonly [Service, ...EndpointSlice[]];

const stories: Readonly<Record<string, (family: Family) => Served>> = {
  'every-kind': (family) => [
    everyKind(family, {
      loadBalancerSourceRanges: ['192.0.0.0/8'],
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 31000,
    }),
    endpoints(family, both),
  ],
  'source-ranges-all': (family) => [
    everyKind(family, { loadBalancerSourceRanges: ['192.0.0.0/8'], guardsAll: true }),
    endpoints(family, both),
  ],
  'policy-local-elsewhere': (family) => [
    everyKind(family, local),
    endpoints(family, { [away]: ready }),
  ],
  'no-endpoints': (family) => [everyKind(family, { endings: { endAfterMs: 1000 } })],
  'session-affinity': (family) => [
    everyKind(family, { externalTrafficPolicy: 'Local', affinityTimeoutSeconds: 10800 }),
    endpoints(family, both),
  ],
  protocols: (family) => everyProtocol(family, both),
  weights: (family) => [
    service({ clusterIPs: [at(family, '10.96.0.1')] }),
    endpoints(family, { [away]: ready }),
    endpoints(family, { [here]: ready, '10.244.0.6': ready }, { key: 'ns/web-2', weight: 300 }),
    endpoints(family, { '10.244.0.7': ready }, { key: 'ns/web-3', weight: 0 }),
  ],
};

async function played(family: Family, served: readonly Served[], more = {}): Promise<string> {
  const kernel = new FakeKernel();
  const stage = new Stage({ family, ...more }, kernel, iptablesMode());
  await stage.play(...served);
  return save(kernel, family);
}

async function beyondFixed(family: Family, text: string): Promise<string> {
  const fixed = withTables(await played(family, []));
  return beyond(fixed, withTables(text), (line) =>
    line.replace(/^(-t \S+) (?::|-A )(\S+).*/, '$1 $2'),
  );
}

/** Each line as the arguments of `iptables`. */
function withTables(text: string): string {
  const inTable = /^\*(\w+)\n([^*]*)COMMIT\n/gm;
  return text.replaceAll(inTable, (_, table, lines) => lines.replaceAll(/^/gm, `-t ${table} `));
}

describe('the output of iptables-save matches for', () => {
  it('no Service', async () => {
    const text = await played('IPv4', []);
    await expect(text).toMatchFileSnapshot('golden/nothing.save');
    expect(asIPv4(await played('IPv6', []))).toBe(text);
  });

  it('no Service with node ports on localhost', async () => {
    const text = await played('IPv4', [], { localhostNodePorts: true });
    await expect(await beyondFixed('IPv4', text)).toMatchFileSnapshot(
      'golden/localhost-node-ports.save',
    );
  });

  it('a node port on localhost if the kernel has named counters', async () => {
    const kernel = new FakeKernel();
    const stage = new Stage({ family: 'IPv4', localhostNodePorts: true }, kernel, iptablesMode());
    await stage.rig.planner.prepare?.(kernel, (ops) => kernel.apply(ops));
    await stage.play([everyKind('IPv4'), endpoints('IPv4', both)]);
    const text = await beyondFixed('IPv4', save(kernel, 'IPv4'));
    await expect(text).toMatchFileSnapshot('golden/named-counters.save');
  });

  it('no Service with node ports on some addresses', async () => {
    const text = await played('IPv4', [], { nodePortAddresses: ['192.168.0.1', '192.168.0.2'] });
    await expect(await beyondFixed('IPv4', text)).toMatchFileSnapshot(
      'golden/node-port-addresses.save',
    );
  });

  it.for(Object.keys(stories))('story %s', async (name) => {
    const text = await played('IPv4', [stories[name]!('IPv4')]);
    await expect(await beyondFixed('IPv4', text)).toMatchFileSnapshot(`golden/${name}.save`);
  });

  it('a Service with a health-check node port if the mode is empty: table filter alone', async () => {
    const kernel = new FakeKernel();
    const empty = likeIptables(nftablesMode);
    const mode = { ...empty, name: 'iptables', planner: empty.filterPlanner! } as const;
    const stage = new Stage({ family: 'IPv4', localhostNodePorts: true }, kernel, mode);
    await stage.play(stories['every-kind']!('IPv4'));
    await expect(save(kernel, 'IPv4')).toMatchFileSnapshot('golden/filter-alone.save');
    const chains = expect.arrayContaining(['INPUT', 'KUBE-NODEPORTS', 'KUBE-FIREWALL']);
    const family = NFPROTO.IPv4;
    expect(stage.rig.planner.exposed).toEqual([{ family, table: 'filter', chains }]);
  });

  it('a Service in IPv6, which is as in IPv4', async () => {
    const [four, six] = (['IPv4', 'IPv6'] as const).map((family) => {
      return played(family, [stories['every-kind']!(family)]);
    });
    expect(asIPv4(await six!)).toBe(await four);
  });
});

/** The counters of rules, and which of them are reported. */
import { beforeEach, describe, expect, it } from 'vitest';
import { NFPROTO } from '../../../../src/kernel/nft/constants.ts';
import { compileRule } from '../../../../src/kernel/xt/compile.ts';
import { dport } from '../../../../src/kernel/xt/matches/port.ts';
import { is } from '../../../../src/kernel/xt/rule.ts';
import { jump } from '../../../../src/kernel/xt/targets/verdict.ts';
import { iptablesMode } from '../../../../src/modes/iptables/mode.ts';
import type { TableName } from '../../../../src/modes/iptables/names.ts';
import { formatEndpoint } from '../../../../src/net/address.ts';
import { noPause } from '../../../../src/time/pacer.ts';
import { batch } from '../../../conformance/ops.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { cidr, http, ready, service } from '../../state/build.ts';
import { endpoints, Stage } from '../nftables/stage.ts';

const [here, there] = ['10.244.0.5', '10.244.1.6'];

let kernel: FakeKernel;
let mode: ReturnType<typeof iptablesMode>;
let stage: Stage;
beforeEach(() => {
  kernel = new FakeKernel();
  mode = iptablesMode();
  stage = new Stage({ family: 'IPv4', countsTraffic: true }, kernel, mode);
});

/** Packets that each rule of a chain sees. */
function seen(table: TableName, chain: string, packets: number): void {
  for (const rule of kernel.table(NFPROTO.IPv4, table)!.chains.get(chain)!.rules) {
    rule.packets += packets;
  }
}

async function told(from = kernel): Promise<Record<string, number>> {
  const counts: [string, number][] = [];
  await mode.trafficCounts!(from, 'IPv4', noPause, ({ count, destination, of }) => {
    const { address, port, protocol } = destination;
    const at = address === undefined ? `node port ${port}` : formatEndpoint(address.bytes, port!);
    const what = of.kind === 'refusals' ? of.reason : of.kind;
    counts.push([`${protocol} ${at} ${what}`, count]);
    return '';
  });
  return Object.fromEntries(counts);
}

const web = service({ clusterIPs: ['10.96.0.1'] });
const connections = 'TCP 10.96.0.1:80 connections';
const refusals = 'TCP 10.96.0.1:80 no_endpoints';
const served = (...addresses: string[]) =>
  endpoints('IPv4', Object.fromEntries(addresses.map((address) => [address, ready])));

describe('the counters of iptables rules', () => {
  it('count connections while endpoints are added and removed', async () => {
    await stage.play([web, served(here)]);
    seen('nat', 'KUBE-SERVICES', 3);
    await stage.play([web, served(here, there)]);
    await stage.play([web, served(there)]);
    expect(await told()).toEqual({ [connections]: 3 });
    seen('nat', 'KUBE-SERVICES', 4);
    expect(await told()).toEqual({ [connections]: 7 });
  });

  it('keep the counts of deleted rules', async () => {
    await stage.play([web, served(here)]);
    seen('nat', 'KUBE-SERVICES', 3);
    await stage.play([web]);
    seen('filter', 'KUBE-SERVICES', 2);
    expect(await told()).toEqual({ [connections]: 5, [refusals]: 2 });
    await stage.play([web, served(here)]);
    expect(await told()).toEqual({ [connections]: 5, [refusals]: 2 });
    seen('nat', 'KUBE-SERVICES', 1);
    expect(await told()).toEqual({ [connections]: 6, [refusals]: 2 });
  });

  it('count node ports at any address, and refusals by policy or source ranges', async () => {
    const outside = service({
      type: 'LoadBalancer',
      clusterIPs: ['10.96.0.1'],
      loadBalancerIPs: ['192.0.2.9'],
      loadBalancerSourceRanges: ['198.51.100.0/24'],
      externalTrafficPolicy: 'Local',
      ports: [{ ...http, nodePort: 30_080 }],
    });
    await stage.play([outside, served(there)]);
    seen('nat', 'KUBE-NODEPORTS', 2);
    seen('filter', 'KUBE-PROXY-FIREWALL', 3);
    seen('filter', 'KUBE-EXTERNAL-SERVICES', 1);
    expect(await told()).toEqual({
      'TCP node port 30080 connections': 2,
      'TCP node port 30080 no_local_endpoints': 1,
      'TCP 192.0.2.9:80 no_local_endpoints': 1,
      'TCP 192.0.2.9:80 source_ranges': 3,
    });
  });

  it('are the same after a restart, without rules of other programs', async () => {
    await stage.play([web, served(here)]);
    const at = { family: NFPROTO.IPv4, table: 'nat', chain: 'KUBE-SERVICES' };
    const compiled = compileRule('IPv4', {
      destination: is(cidr('10.96.0.9/32')),
      protocol: 'TCP',
      matches: [dport(80)],
      target: jump('KUBE-MARK-MASQ'),
    });
    kernel.foreign(batch({ kind: 'xtRuleAdd', ...at, position: 0, echo: 0, ...compiled }));
    seen('nat', 'KUBE-SERVICES', 3);
    seen('nat', 'PREROUTING', 9);
    mode = iptablesMode();
    expect(await told()).toEqual({ [connections]: 3 });
  });

  it('are not those of a double that an audit deletes', async () => {
    await stage.play([web, served(here)]);
    seen('nat', 'KUBE-SERVICES', 3);
    const at = { family: NFPROTO.IPv4, table: 'nat', chain: 'KUBE-SERVICES' };
    const rules = () => kernel.table(at.family, at.table)!.chains.get(at.chain)!.rules;
    const { expressions } = rules()[0]!;
    kernel.foreign(
      batch({ kind: 'xtRuleAdd', ...at, position: 0, echo: 0, protocol: 0, expressions }),
    );
    rules().at(-1)!.packets = 9;
    await stage.rig.audit();
    expect(await told()).toEqual({ [connections]: 3 });
  });

  it('never decrease, although a rule may be missing while others are written', async () => {
    await stage.play([web, served(here)]);
    seen('nat', 'KUBE-SERVICES', 3);
    await stage.play([web]);
    await stage.play([web, served(here)]);
    seen('nat', 'KUBE-SERVICES', 3);
    expect(await told()).toEqual({ [connections]: 6 });
    expect(await told(new FakeKernel())).toEqual({ [connections]: 6 });
    seen('nat', 'KUBE-SERVICES', 1);
    expect(await told()).toEqual({ [connections]: 7 });
  });
});

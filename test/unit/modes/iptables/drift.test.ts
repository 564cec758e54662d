import { expect, it } from 'vitest';
import { NFPROTO } from '../../../../src/kernel/nft/constants.ts';
import { compileRule } from '../../../../src/kernel/xt/compile.ts';
import type { XtRule } from '../../../../src/kernel/xt/rule.ts';
import { drop, jump } from '../../../../src/kernel/xt/targets/verdict.ts';
import { iptablesMode } from '../../../../src/modes/iptables/mode.ts';
import { serviceChains } from '../../../../src/modes/iptables/names.ts';
import { batch } from '../../../conformance/ops.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { all, config, environment, forwarding, pool } from '../nftables/forwardings.ts';
import { noDrift, Rig } from '../nftables/rig.ts';
import { save } from './save.ts';

const ip = { family: NFPROTO.IPv4 } as const;
const web = forwarding('web', pool(1));
const { cluster: chainOfWeb } = serviceChains(web.servicePort);
const local = { ...config, localhostNodePorts: true };

async function started(): Promise<Rig> {
  const rig = new Rig(local, environment, new FakeKernel(), iptablesMode());
  // Also the two chains of the Service and its rule.
  expect(await rig.start(all(web))).toEqual({ missing: 31, wrong: 0, unwanted: 0 });
  return rig;
}

function ruleAdd(table: string, chain: string, rule: XtRule) {
  const compiled = compileRule('IPv4', rule);
  return { kind: 'xtRuleAdd', ...ip, table, chain, position: 0, echo: 0, ...compiled } as const;
}

it.each([
  ['chainFlush', 'filter', 'KUBE-FIREWALL', { missing: 1 }],
  ['chainFlush', 'nat', 'KUBE-POSTROUTING', { wrong: 1 }],
  ['chainFlush', 'nat', chainOfWeb, { wrong: 1 }],
  ['chainFlush', 'filter', 'INPUT', { missing: 4 }],
  ['xtRuleAdd', 'filter', 'KUBE-EXTERNAL-SERVICES', { unwanted: 1 }],
  ['xtRuleAdd', 'nat', 'KUBE-SERVICES', { wrong: 1, unwanted: 2 }],
  ['chainAdd', 'nat', 'KUBE-SVC-AAAAAAAAAAAAAAAA', { unwanted: 1 }],
] as const)(
  'an audit counts another program’s %s %s %s once',
  async (kind, table, chain, drift) => {
    const rig = await started();
    const rule = ruleAdd(table, chain, { target: drop });
    rig.kernel.foreign(batch({ ...rule, kind, comment: '' }));
    expect(await rig.audit()).toEqual({ ...noDrift, ...drift });
    expect(await rig.audit()).toEqual(noDrift);
  },
);

it('an audit deletes doubles of our jumps, and leaves jumps of other programs', async () => {
  const rig = await started();
  const target = jump('KUBE-FORWARD');
  const eth0 = { operator: '==', name: 'eth0' } as const;
  const before = save(rig.kernel, 'IPv4');
  rig.kernel.foreign(batch(ruleAdd('filter', 'FORWARD', { target })));
  expect(await rig.audit()).toEqual({ ...noDrift, unwanted: 1 });
  expect(save(rig.kernel, 'IPv4')).toBe(before);
  rig.kernel.foreign(
    batch(
      { kind: 'chainAdd', ...ip, table: 'filter', chain: 'OTHER', comment: '' },
      ruleAdd('filter', 'OTHER', { target }),
      ruleAdd('filter', 'FORWARD', { inputInterface: eth0, target }),
    ),
  );
  const others = save(rig.kernel, 'IPv4');
  expect(await rig.audit()).toEqual(noDrift);
  expect(save(rig.kernel, 'IPv4')).toBe(others);
});

it('a cleanup removes what is ours, but for chains that other programs need', async () => {
  const { kernel } = await started();
  const [other, own] = [{ table: 'nat', chain: 'OTHER' } as const, jump(chainOfWeb)];
  kernel.foreign(
    batch(
      { kind: 'chainAdd', ...ip, ...other, comment: '' },
      ruleAdd(other.table, other.chain, { target: own }),
      ruleAdd('filter', 'INPUT', { target: drop }),
    ),
  );
  const because = "only Fairlead's iptables mode has KUBE-HAIRPIN among them";
  expect(await iptablesMode().owned(kernel)).toEqual([
    { object: '14 chains KUBE-* of family ip', because },
  ]);
  await iptablesMode().cleanup(kernel);
  const left = save(kernel, 'IPv4').match(/^(?:-A|:KUBE) ?\S+/gm);
  expect(left).toEqual([
    ...[`:${chainOfWeb}`, `-A ${chainOfWeb}`, '-A OTHER'],
    // The kubelet has these, too.
    ...[':KUBE-FIREWALL', '-A INPUT', '-A INPUT', '-A OUTPUT', '-A KUBE-FIREWALL'],
  ]);
});

import { expect, it } from 'vitest';
import { NFPROTO } from '../../../../src/kernel/nft/constants.ts';
import { compileRule, drop } from '../../../../src/kernel/nft/rule.ts';
import { iptablesMode } from '../../../../src/modes/iptables/mode.ts';
import { batch } from '../../../conformance/ops.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { config, environment } from '../nftables/forwardings.ts';
import { noDrift, Rig } from '../nftables/rig.ts';

it.each([
  ['chainFlush', 'filter', 'KUBE-FIREWALL', { missing: 1 }],
  ['chainFlush', 'nat', 'KUBE-POSTROUTING', { wrong: 1 }],
  ['chainFlush', 'filter', 'INPUT', { missing: 4 }],
  ['ruleAdd', 'filter', 'KUBE-EXTERNAL-SERVICES', { unwanted: 1 }],
  ['ruleAdd', 'nat', 'KUBE-SERVICES', { wrong: 1, unwanted: 2 }],
  ['chainAdd', 'nat', 'KUBE-SVC-AAAAAAAAAAAAAAAA', { unwanted: 1 }],
] as const)(
  'an audit counts another program’s %s %s %s once',
  async (kind, table, chain, drift) => {
    const local = { ...config, localhostNodePorts: true };
    const rig = new Rig(local, environment, new FakeKernel(), iptablesMode());
    const { missing, ...others } = await rig.start(new Map());
    expect(others).toEqual({ wrong: 0, unwanted: 0 });
    expect(missing).toBeGreaterThan(5);
    const expressions = compileRule([drop]);
    rig.kernel.foreign(
      batch({ kind, family: NFPROTO.IPv4, table, chain, expressions, comment: '' }),
    );
    expect(await rig.audit()).toEqual({ ...noDrift, ...drift });
    expect(await rig.audit()).toEqual(noDrift);
  },
);

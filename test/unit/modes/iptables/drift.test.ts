import { expect, it } from 'vitest';
import { NFPROTO } from '../../../../src/kernel/nft/constants.ts';
import { iptablesMode } from '../../../../src/modes/iptables/mode.ts';
import { batch } from '../../../conformance/ops.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { config, environment } from '../nftables/forwardings.ts';
import { noDrift, Rig } from '../nftables/rig.ts';

it.each([
  ['filter', 'KUBE-FIREWALL', { ...noDrift, missing: 1 }],
  ['nat', 'KUBE-POSTROUTING', { ...noDrift, wrong: 1 }],
])('an audit counts what another program took from %s %s, once', async (table, chain, expected) => {
  const rig = new Rig(
    { ...config, localhostNodePorts: true },
    environment,
    new FakeKernel(),
    iptablesMode(),
  );
  const { missing, ...others } = await rig.start(new Map());
  expect(others).toEqual({ wrong: 0, unwanted: 0 });
  expect(missing).toBeGreaterThan(5);
  rig.kernel.foreign(batch({ kind: 'chainFlush', family: NFPROTO.IPv4, table, chain }));
  expect(await rig.audit()).toEqual(expected);
  expect(await rig.audit()).toEqual(noDrift);
});

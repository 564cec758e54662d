/** What is said of virtual services that another process has left. */
import { expect, it } from 'vitest';
import { IPPROTO } from '../../../../src/kernel/nft/constants.ts';
import { nftablesMode } from '../../../../src/modes/nftables/mode.ts';
import type { ProxyMode } from '../../../../src/modes/proxy-mode.ts';
import { checkPredecessors } from '../../../../src/tools/preflight/predecessors.ts';
import { batch } from '../../../conformance/ops.ts';
import { FakeKernel } from '../../../fake/kernel.ts';

const link = 'kube-ipvs0';

function withVirtualServices(): FakeKernel {
  const kernel = new FakeKernel();
  const vip = Uint8Array.of(10, 96, 0, 1);
  const bound = { family: 2, link, index: 0, prefixLength: 32, addresses: vip, flags: 0 };
  const settings = { scheduler: 'rr', flags: 0, timeoutSeconds: 0, prefixLength: 32 };
  const at = (address: Uint8Array) => ({ family: 2, protocol: IPPROTO.TCP, address, port: 443 });
  kernel.foreign(
    batch(
      { kind: 'linkAdd', link, type: 'dummy' },
      { kind: 'addressesAdd', ...bound },
      { kind: 'virtualServiceAdd', ...at(vip), ...settings },
      { kind: 'virtualServiceAdd', ...at(Uint8Array.of(203, 0, 113, 9)), ...settings },
    ),
  );
  return kernel;
}

it.each([
  ['of kube-proxy, which are taken over', [], ['kube-proxy in IPVS', 'IPVS']],
  ['of our own mode, which has its own line', [link], ["Fairlead's mode ipvs", 'IPVS']],
])('virtual services are named %s', async (_, objects, checks) => {
  const owned = objects.map((name) => ({ object: `interface ${name}`, because: 'test' }));
  const ipvs: ProxyMode = {
    ...nftablesMode,
    name: 'ipvs',
    usesIPVS: true,
    owned: async () => owned,
  };
  const findings = await checkPredecessors(withVirtualServices(), [ipvs], ipvs);
  const [, ...rest] = findings.map(({ check }) => check);
  expect(rest).toEqual(checks);
});

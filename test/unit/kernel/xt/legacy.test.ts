import { expect, it } from 'vitest';
import { legacyTables } from '../../../../src/kernel/xt/legacy.ts';
import { FakeKernel } from '../../../fake/kernel.ts';

it('gives each table of iptables-legacy its own chains', async () => {
  const kernel = new FakeKernel();
  expect(await legacyTables(kernel, 'IPv4')).toEqual([]);
  const tables = [
    { table: 'mangle', rules: 0, chains: ['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY'] },
    { table: 'nat', rules: 7, chains: [] },
    { table: 'filter', rules: 1, chains: ['DOCKER'] },
  ];
  kernel.legacyTables = { IPv4: [], IPv6: tables };
  expect(await legacyTables(kernel, 'IPv6')).toEqual(tables);
  expect(await legacyTables(kernel, 'IPv4')).toEqual([]);
});

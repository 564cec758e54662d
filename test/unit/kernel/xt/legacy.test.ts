import { expect, it } from 'vitest';
import { legacyTables } from '../../../../src/kernel/xt/legacy.ts';
import { FakeKernel } from '../../../fake/kernel.ts';

it('the parser of iptables-legacy assigns chains to their tables, and jumps to their chains', async () => {
  const kernel = new FakeKernel();
  expect(await legacyTables(kernel, 'IPv4')).toEqual([]);
  kernel.legacy.write('IPv6', 'mangle', { 'KUBE-IPTABLES-HINT': [] });
  kernel.legacy.write('IPv6', 'filter', { FORWARD: ['DOCKER', '', 'DOCKER'], DOCKER: [] });
  kernel.legacy.dropping.add('FORWARD');
  const made = { isBuiltIn: false, policy: 1, targets: [] };
  const forward = { isBuiltIn: true, policy: 0, targets: ['DOCKER', 'DOCKER'] };
  expect(await legacyTables(kernel, 'IPv6')).toEqual([
    { table: 'mangle', rules: 0, chains: new Map([['KUBE-IPTABLES-HINT', made]]) },
    {
      table: 'filter',
      rules: 3,
      chains: new Map([
        ['FORWARD', forward],
        ['DOCKER', made],
      ]),
    },
  ]);
  expect(await legacyTables(kernel, 'IPv4')).toEqual([]);
});

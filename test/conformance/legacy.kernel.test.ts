/** Reading what iptables-legacy has written. It must not make a table that is not there. */
import { expect, test } from 'vitest';
import { legacyTables } from '../../src/kernel/xt/legacy.ts';
import type { Family } from '../../src/net/address.ts';
import { createKernel } from './namespace.ts';

const programs = { IPv4: 'iptables', IPv6: 'ip6tables' } as const;

test.each<Family>(['IPv4', 'IPv6'])(
  '%s: a namespace with only iptables-nft has no legacy tables, and reading creates none',
  async (family) => {
    const { kernel, namespace } = await createKernel();
    await namespace.run(`${programs[family]}-nft`, ['-A', 'INPUT', '-j', 'ACCEPT']);
    expect(await legacyTables(kernel, family)).toEqual([]);
    expect(await legacyTables(kernel, family)).toEqual([]);
  },
);

test.each<Family>(['IPv4', 'IPv6'])('%s: chains and rules are counted by table', async (family) => {
  const { kernel, namespace } = await createKernel();
  const restore = [
    '*mangle',
    ':KUBE-IPTABLES-HINT - [0:0]',
    ':KUBE-KUBELET-CANARY - [0:0]',
    'COMMIT',
    '*filter',
    ':INPUT DROP [0:0]',
    ':ERROR-LIKE - [0:0]',
    '-A INPUT -p tcp -m tcp --dport 22 -m comment --comment "by hand" -j ACCEPT',
    '-A INPUT -j ERROR-LIKE',
    '-A ERROR-LIKE -j REJECT',
    'COMMIT',
    '',
  ].join('\n');
  await namespace.run(`${programs[family]}-legacy-restore`, [], restore);
  const reject = { isBuiltIn: true, policy: 0, targets: ['ERROR-LIKE'] };
  const empty = { isBuiltIn: true, policy: 1, targets: [] };
  const made = { isBuiltIn: false, policy: 1, targets: [] };
  const mangle = ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'];
  const own = ['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY'];
  const tables = [...(await legacyTables(kernel, family))];
  expect(tables.sort((a, b) => a.table.localeCompare(b.table))).toEqual([
    {
      table: 'filter',
      rules: 3,
      chains: new Map([
        ['INPUT', reject],
        ['FORWARD', empty],
        ['OUTPUT', empty],
        ['ERROR-LIKE', made],
      ]),
    },
    {
      table: 'mangle',
      rules: 0,
      chains: new Map([
        ...mangle.map((name) => [name, empty] as const),
        ...own.map((name) => [name, made] as const),
      ]),
    },
  ]);
  await namespace.run(`${programs[family]}-legacy`, ['-F']);
  await namespace.run(`${programs[family]}-legacy`, ['-X']);
  const emptied = (await legacyTables(kernel, family)).find(({ table }) => table === 'filter');
  expect(emptied).toMatchObject({ rules: 0 });
  expect([...(emptied?.chains.keys() ?? [])]).toEqual(['INPUT', 'FORWARD', 'OUTPUT']);
  const other = family === 'IPv4' ? 'IPv6' : 'IPv4';
  expect(await legacyTables(kernel, other)).toEqual([]);
});

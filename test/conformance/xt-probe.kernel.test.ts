import { expect, test } from 'vitest';
import { missingExtensions } from '../../src/kernel/xt/probe.ts';
import { createKernel } from './namespace.ts';

test.each(['IPv4', 'IPv6'] as const)(
  'this kernel has every match and target of iptables that we need, for %s, and the probe leaves nothing',
  async (family) => {
    const { kernel, namespace } = await createKernel();
    expect(await missingExtensions(kernel, family)).toEqual([]);
    expect(await namespace.run('nft', ['list', 'ruleset'])).toBe('');
  },
);

test('the probe works with existing tables of iptables, and does not change them', async () => {
  const { kernel, namespace } = await createKernel();
  await namespace.run('iptables-nft', ['-P', 'INPUT', 'DROP']);
  await namespace.run('iptables-nft', ['-t', 'nat', '-A', 'PREROUTING', '-j', 'ACCEPT']);
  const before = await namespace.run('nft', ['list', 'ruleset']);
  expect(await missingExtensions(kernel, 'IPv4')).toEqual([]);
  expect(await namespace.run('nft', ['list', 'ruleset'])).toBe(before);
});

test('a built-in chain of another type is reported as an obstacle', async () => {
  const { kernel, namespace } = await createKernel();
  const chain = 'chain INPUT { type filter hook input priority 5; };';
  await namespace.run('nft', ['-f', '-'], `table ip filter { ${chain} }`);
  expect(await missingExtensions(kernel, 'IPv4')).toEqual([
    {
      // EEXIST in Linux 6.1.
      feature: expect.stringMatching(/^filter chain INPUT \((EOPNOTSUPP|EEXIST)\)$/),
      advice: 'see what else made it: nft list table ip filter',
    },
  ]);
});

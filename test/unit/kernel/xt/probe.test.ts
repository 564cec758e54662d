import { describe, expect, it } from 'vitest';
import { missingExtensions } from '../../../../src/kernel/xt/probe.ts';
import { FakeKernel } from '../../../fake/kernel.ts';

describe('the probe of iptables matches and targets', () => {
  it('finds all of them, and removes its rules', async () => {
    const kernel = new FakeKernel();
    expect(await missingExtensions(kernel, 'IPv4')).toEqual([]);
    expect(await missingExtensions(kernel, 'IPv6')).toEqual([]);
    expect(kernel.ruleset()).toBe('');
  });

  it('names missing ones with their kernel modules', async () => {
    const kernel = new FakeKernel();
    kernel.missingExtensions.add('recent').add('REJECT');
    expect(await missingExtensions(kernel, 'IPv6')).toEqual([
      {
        feature: 'iptables match recent (ENOENT)',
        advice: 'load modules nft_compat and xt_recent',
      },
      {
        feature: 'iptables target REJECT (ENOENT)',
        advice: 'load modules nft_compat and ip6t_REJECT',
      },
    ]);
  });

  it('requires the permission to ask', async () => {
    const kernel = new FakeKernel();
    kernel.failNext({ code: 'EPERM' });
    await expect(missingExtensions(kernel, 'IPv4')).rejects.toMatchObject({ code: 'EPERM' });
  });
});

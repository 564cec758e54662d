import { describe, expect, it } from 'vitest';
import { missingExtensions } from '../../../../src/kernel/xt/probe.ts';
import { FakeKernel } from '../../../fake/kernel.ts';

describe('asking for matches and targets', () => {
  it('finds that nothing is missing, and leaves nothing behind', async () => {
    const kernel = new FakeKernel();
    expect(await missingExtensions(kernel, 'IPv4')).toEqual([]);
    expect(await missingExtensions(kernel, 'IPv6')).toEqual([]);
    expect(kernel.ruleset()).toBe('');
  });

  it('names what is missing, and the kernel module that has it', async () => {
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

  it('needs the right to ask', async () => {
    const kernel = new FakeKernel();
    kernel.failNext({ code: 'EPERM' });
    await expect(missingExtensions(kernel, 'IPv4')).rejects.toMatchObject({ code: 'EPERM' });
  });
});

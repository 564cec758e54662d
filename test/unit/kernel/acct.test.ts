import { describe, expect, it } from 'vitest';
import { deleteCounters, makeCounters, readCounters } from '../../../src/kernel/acct.ts';
import { FakeKernel } from '../../fake/kernel.ts';

const names = ['ct_state_invalid_dropped_pkts', 'localhost_nps_accepted_pkts'];

describe('named counters', () => {
  it('are created once, and keep their counts', async () => {
    const kernel = new FakeKernel();
    expect(await makeCounters(kernel, 'IPv4')).toBe(true);
    kernel.accts.packets.set(names[0]!, 7).set('mine', 1);
    expect(await makeCounters(kernel, 'IPv6')).toBe(true);
    expect(await readCounters(kernel)).toMatchObject([
      { name: names[0], packets: 7, references: 0 },
      { name: names[1], packets: 0, references: 0 },
    ]);
    expect(kernel.ruleset()).toBe('');
  });

  it('are skipped on a kernel without nfnetlink_acct', async () => {
    const kernel = new FakeKernel();
    kernel.accts.present = false;
    expect(await makeCounters(kernel, 'IPv4')).toBe(false);
    expect(await readCounters(kernel)).toEqual([]);
  });

  it.each(['EPERM', 'EACCES', 'ENOMEM'])('are tried again after %s', async (code) => {
    const kernel = new FakeKernel();
    kernel.failNext({ code, times: 1 });
    await expect(makeCounters(kernel, 'IPv4')).rejects.toMatchObject({ code });
    expect(await makeCounters(kernel, 'IPv4')).toBe(true);
  });

  it('are deleted if rules cannot use them', async () => {
    const kernel = new FakeKernel();
    kernel.missingExtensions.add('nfacct');
    expect(await makeCounters(kernel, 'IPv4')).toBe(false);
    expect(kernel.accts.packets.size).toBe(0);
  });

  it('are deleted if they exist', async () => {
    const kernel = new FakeKernel();
    await makeCounters(kernel, 'IPv4');
    await deleteCounters(kernel, names);
    await deleteCounters(kernel, names);
    expect(kernel.accts.packets.size).toBe(0);
  });

  it('are not deleted without permission, and the error says so', async () => {
    const failures = ['ENOENT', 'EPERM'].map((code, op) => {
      return { op, entry: undefined, code, message: code.toLowerCase() };
    });
    const apply = async () => ({ kind: 'failed', partly: false, failures }) as const;
    const kernel = Object.assign(new FakeKernel(), { apply });
    const words = `acct.delete ${names.join(', ')}: eperm (EPERM)`;
    await expect(deleteCounters(kernel, names)).rejects.toThrow(words);
  });
});

/**
 * Named counters (nfacct) in a real kernel: which ones rules may use, and when they can be deleted.
 */
import { expect, test } from 'vitest';
import { deleteCounters, makeCounters, readCounters } from '../../src/kernel/acct.ts';
import { acctOps } from '../../src/kernel/acct-ops.ts';
import { RecordWriter } from '../../src/kernel/records.ts';
import { hangsMs } from '../lab/pace.ts';
import { createKernel } from './namespace.ts';

const name = 'ct_state_invalid_dropped_pkts';
const rule = ['INPUT', '-p', 'udp', '-m', 'nfacct', '--nfacct-name', name, '-j', 'DROP'];

/** How long what threads of the kernel do may take. */
const long = { timeout: hangsMs };

/** Sends three datagrams of 4 bytes to the node itself. */
const sender = `
  const socket = require('node:dgram').createSocket('udp4');
  let left = 3;
  for (let i = 0; i < 3; i += 1) {
    socket.send('ping', 9, '127.0.0.1', () => { left -= 1; if (left === 0) socket.close(); });
  }
`;

test('named counters count matching packets, and can be deleted when no rule refers to them', async () => {
  const { kernel, namespace } = await createKernel();
  expect(await readCounters(kernel)).toEqual([]);
  expect(await makeCounters(kernel, 'IPv4')).toBe(true);
  expect(await namespace.run('nft', ['list', 'ruleset'])).toBe('');
  await namespace.run('ip', ['link', 'set', 'lo', 'up']);
  await namespace.run('iptables-nft', ['-A', ...rule]);
  await namespace.run(process.execPath, ['-e', sender]);
  expect(await makeCounters(kernel, 'IPv6')).toBe(true);
  const names = [name, 'localhost_nps_accepted_pkts'];
  // The last one may still wait in a queue when the process that sent it has ended.
  await expect
    .poll(() => readCounters(kernel), long)
    .toMatchObject([
      { name, packets: 3, bytes: 96, references: 1 },
      { name: names[1], packets: 0, bytes: 0, references: 0 },
    ]);
  await deleteCounters(kernel, names);
  expect(await readCounters(kernel)).toMatchObject([{ name, packets: 3 }]);
  await namespace.run('iptables-nft', ['-D', ...rule]);
  // The rule refers to it until a thread of the kernel has freed the rule.
  const left = async () => {
    await deleteCounters(kernel, names);
    return readCounters(kernel);
  };
  await expect.poll(left, long).toEqual([]);
});

test('refusals of named counters have their reason', async () => {
  const { kernel } = await createKernel();
  const writer = new RecordWriter(acctOps);
  writer.write('acctDelete', { name: 'nowhere' });
  writer.write('acctAdd', { name: 'twice' });
  writer.write('acctAdd', { name: 'twice' });
  writer.write('acctDelete', { name: '' });
  writer.write('acctAdd', { name: 'x'.repeat(32) });
  const result = await kernel.apply(writer.finish());
  const failures = result.kind === 'failed' ? result.failures : [];
  const codes = failures.map(({ op, code }) => `${op} ${code}`);
  expect(codes.sort()).toEqual(['0 ENOENT', '2 EBUSY', '3 EINVAL', '4 EINVAL']);
});

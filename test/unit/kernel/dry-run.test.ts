import { expect, test } from 'vitest';
import { readCounters } from '../../../src/kernel/acct.ts';
import { dryRunOf } from '../../../src/kernel/dry-run.ts';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { batch } from '../../conformance/ops.ts';
import { FakeKernel } from '../../fake/kernel.ts';

const inTable = { family: NFPROTO.IPv4, table: 't' };
const add = { kind: 'tableAdd', ...inTable, comment: '' } as const;

test('a dry run reports valid ops as applied and changes nothing', async () => {
  const kernel = new FakeKernel();
  const dryRun = dryRunOf(kernel);
  expect(await dryRun.apply(batch(add))).toEqual({ kind: 'applied' });
  expect(
    await dryRun.apply(batch({ kind: 'acctAdd', name: 'ct_state_invalid_dropped_pkts' })),
  ).toEqual({
    kind: 'applied',
  });
  expect((await kernel.dump({ kind: 'tablesDump', family: 0 })).records).toEqual([]);
  expect(await readCounters(kernel)).toEqual([]);
});

test('a dry run reports the op that the kernel would reject', async () => {
  const kernel = new FakeKernel();
  const flush = { kind: 'chainFlush', ...inTable, chain: 'c' } as const;
  const result = await dryRunOf(kernel).apply(batch(add, flush));
  expect(result).toMatchObject({ kind: 'failed', failures: [{ op: 1, code: 'ENOENT' }] });
  expect((await kernel.dump({ kind: 'tablesDump', family: 0 })).records).toEqual([]);
});

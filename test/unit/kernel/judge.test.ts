import { expect, test } from 'vitest';
import { readCounters } from '../../../src/kernel/acct.ts';
import { judgeOf } from '../../../src/kernel/judge.ts';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { batch } from '../../conformance/ops.ts';
import { FakeKernel } from '../../fake/kernel.ts';

const inTable = { family: NFPROTO.IPv4, table: 't' };
const add = { kind: 'tableAdd', ...inTable, comment: '' } as const;

test('what the kernel would take is applied in words, and never in deed', async () => {
  const kernel = new FakeKernel();
  const judge = judgeOf(kernel);
  expect(await judge.apply(batch(add))).toEqual({ kind: 'applied' });
  expect(
    await judge.apply(batch({ kind: 'acctAdd', name: 'ct_state_invalid_dropped_pkts' })),
  ).toEqual({
    kind: 'applied',
  });
  expect((await kernel.dump({ kind: 'tablesDump', family: 0 })).records).toEqual([]);
  expect(await readCounters(kernel)).toEqual([]);
});

test('what the kernel would refuse is refused, with its op', async () => {
  const kernel = new FakeKernel();
  const flush = { kind: 'chainFlush', ...inTable, chain: 'c' } as const;
  const result = await judgeOf(kernel).apply(batch(add, flush));
  expect(result).toMatchObject({ kind: 'failed', failures: [{ op: 1, code: 'ENOENT' }] });
  expect((await kernel.dump({ kind: 'tablesDump', family: 0 })).records).toEqual([]);
});

/** Dumps whose records are taken one at a time, from the kernel and from the fake. */
import { expect, test } from 'vitest';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
import type { Reply, Request } from '../../src/kernel/ops.ts';
import { FakeKernel } from '../fake/kernel.ts';
import { createKernel } from './namespace.ts';
import { applied } from './ops.ts';

const table = { family: NFPROTO.IPv4, table: 't' } as const;
const chains = Array.from({ length: 3000 }, (_, i) => `c${i}`);

async function taken(kernel: Kernel, request: Request): Promise<Reply[]> {
  const records: Reply[] = [];
  const result = await kernel.dump(request, (record) => records.push(record));
  expect(result).toEqual({ records: [], consistent: true });
  return records;
}

test.each([
  ['the kernel', async () => (await createKernel()).kernel],
  ['the fake', async () => new FakeKernel()],
])('a dump of %s returns the records of its schema', async (_, create) => {
  const kernel = await create();
  await applied(
    kernel,
    { kind: 'tableAdd', ...table, comment: '' },
    ...chains.map((chain) => ({ kind: 'chainAdd', ...table, chain, comment: '' }) as const),
  );
  const request = { kind: 'chainsDump', ...table } as const;
  const records = await taken(kernel, request);
  expect(records).toHaveLength(chains.length);
  expect(records).toEqual((await kernel.dump(request)).records);
  expect(await taken(kernel, { ...request, table: 'absent' })).toEqual([]);
});

test('the fake kernel returns no records of an interrupted dump', async () => {
  const kernel = new FakeKernel();
  await applied(kernel, { kind: 'tableAdd', ...table, comment: '' });
  kernel.interruptDumps();
  const records: Reply[] = [];
  const dump = { kind: 'tablesDump', family: NFPROTO.IPv4 } as const;
  const { consistent } = await kernel.dump(dump, (record) => records.push(record));
  expect([consistent, records]).toEqual([false, []]);
});

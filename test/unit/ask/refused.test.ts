import { expect, it } from 'vitest';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { RefusedConnections } from '../../../src/serve/ask/refused.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { kernelWith } from '../../fake/kernel-with.ts';
import { ToyClock } from '../sync/double.ts';

it('refused connections that were found are counted again by metrics, too, for a minute', async () => {
  const [clock, kernel] = [new ToyClock(), new FakeKernel()];
  // 10.96.0.1:80, 10.244.1.6:8080, and how often.
  const pair = [10, 96, 0, 1, 0, 80, 0, 0, 10, 244, 1, 6, 0x1f, 0x90, 0, 0];
  const entries = Uint8Array.of(...pair, 5, 0, 0, 0, 0, 0, 0, 0);
  const record = { kind: 'elements', count: 1, strange: 0, entries };
  const shape = { keyLength: 16, dataLength: 0, shape: 0, family: 2, table: '', set: '' };
  const reader = kernelWith(kernel, {
    dump: async (request) => ({
      records: [{ ...shape, ...record, ...request, kind: 'elements' } as never],
      consistent: true,
    }),
  });
  const refused = new RefusedConnections({ clock, kernel: reader });
  const table = () => kernel.table(NFPROTO.IPv4, 'fairlead-refused');
  const countsAfter = async (ms: number, isAsked = false): Promise<boolean> => {
    await clock.pass(ms);
    await refused.count(['IPv4'], isAsked);
    return table() !== undefined;
  };
  expect(await countsAfter(0)).toBe(false);
  expect(await countsAfter(0, true)).toBe(true);
  expect(table()!.sets.get('pairs')!.fields.size).toBe(4096);
  await clock.pass(10_000);
  expect([table(), refused.of('IPv4', 'TCP').length]).toEqual([undefined, 1]);
  expect(await countsAfter(59_999)).toBe(true);
  await clock.pass(10_000);
  expect(await countsAfter(60_000)).toBe(false);
  expect(refused.of('IPv4', 'TCP').length).toBe(0);
});

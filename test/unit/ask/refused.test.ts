import { expect, it } from 'vitest';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { nftOps } from '../../../src/kernel/ops.ts';
import { readRecords } from '../../../src/kernel/records.ts';
import { RefusedConnections } from '../../../src/serve/ask/unanswered.ts';
import type { FrontendsInForce } from '../../../src/state/frontends-in-force.ts';
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
  const refused = new RefusedConnections({ clock, engine: undefined, kernel: reader });
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

it('pairs of a namespace that fills the set make room for others', async () => {
  const clock = new ToyClock();
  const pairs = new Set<string>();
  const apply = async (ops: Uint8Array) => {
    for (const op of readRecords(nftOps, ops)) {
      const text = Buffer.from('entries' in op ? op.entries : []).toString('latin1');
      for (const [key] of text.matchAll(/[\s\S]{16}/g)) expect(pairs.delete(key)).toBe(true);
    }
    return { kind: 'applied' } as const;
  };
  const dump = async () => {
    const entries = Buffer.from([...pairs, ''].join('\x01\0\0\0\0\0\0\0'), 'latin1');
    return { records: [{ kind: 'elements', keyLength: 16, entries } as never], consistent: true };
  };
  const at = (({ address }) => ({ namespace: `${address!.bytes[1]}` })) as FrontendsInForce['at'];
  const engine = { frontends: { IPv4: { at } as FrontendsInForce } };
  const refused = new RefusedConnections({ clock, engine, kernel: { apply, dump } });
  const pairOf = (namespace: number, i: number) =>
    String.fromCharCode(10, namespace, 0, i >> 6, 0, 80, 0, 0, 10, 244, 0, i & 63, 0, 80, 0, 0);
  const refuse = (namespace: number, count: number): void => {
    for (let i = 0; i < count && pairs.size < 4096; i += 1) pairs.add(pairOf(namespace, i));
  };
  await refused.count(['IPv4'], true);
  for (const ms of [2000, 8000]) {
    refuse(2, ms === 2000 ? 0 : 64);
    refuse(1, 4096);
    await clock.pass(ms);
    expect(pairs.size).toBe(2048);
  }
  expect(refused.of('IPv4', 'TCP').length).toBe(4096 + 64);
});

/** The number of a set's elements, as the kernel and the fake report it. */
import { expect, test } from 'vitest';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { NFPROTO, NFT_SET, NFT_SET_ELEM_INTERVAL_END } from '../../src/kernel/nft/constants.ts';
import { ElementShape, type NftOp, unknownIndex } from '../../src/kernel/ops.ts';
import { FakeKernel } from '../fake/kernel.ts';
import { createKernel } from './namespace.ts';
import { addressSet, applied, bytes, dumped, u32 } from './ops.ts';

const table = { family: NFPROTO.IPv4, table: 't' } as const;

function setAdd(set: string, flags: number): NftOp {
  return { kind: 'setAdd', ...table, ...addressSet, set, flags };
}

function elementsAdd(set: string, shape: number, ...entries: readonly Uint8Array[]): NftOp {
  const layout = { shape, keyLength: 4, dataLength: 0, count: entries.length };
  return { kind: 'elementsAdd', ...table, set, ...layout, entries: Buffer.concat(entries) };
}

const start = (key: string): Uint8Array => bytes(key, u32(0));
const end = (key: string): Uint8Array => bytes(key, u32(NFT_SET_ELEM_INTERVAL_END));

async function counts(kernel: Kernel): Promise<Record<string, number>> {
  await applied(
    kernel,
    { kind: 'tableAdd', ...table, comment: '' },
    setAdd('keys', 0),
    setAdd('ranges', NFT_SET.INTERVAL),
    setAdd('nothing', 0),
    elementsAdd('keys', 0, bytes('0a000001'), bytes('0a000002'), bytes('0a000003')),
    elementsAdd(
      'ranges',
      ElementShape.flags,
      start('0a000000'),
      end('0b000000'),
      start('0c000000'),
      end('0c000100'),
    ),
  );
  const sets = await dumped(kernel, 'set', { kind: 'setsDump', ...table });
  return Object.fromEntries(sets.map(({ set, count }) => [set, count]));
}

test('elements and ranges are counted, or the kernel has counts of none of its sets', async () => {
  const fake = await counts(new FakeKernel());
  expect(fake).toEqual({ keys: 3, ranges: 2, nothing: 0 });
  const { kernel } = await createKernel();
  const real = await counts(kernel);
  const untold = { keys: unknownIndex, ranges: unknownIndex, nothing: unknownIndex };
  expect([fake, untold]).toContainEqual(real);
});

import { describe, expect, it } from 'vitest';
import { isKernelError, type KernelError } from '../../../src/kernel/errors.ts';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { TableOwnership } from '../../../src/modes/nft-table/ownership.ts';
import { batch } from '../../conformance/ops.ts';
import { FakeKernel } from '../../fake/kernel.ts';

const layout = { family: 'IPv4', table: 't', comment: '' } as const;
const table = { family: NFPROTO.IPv4, table: 't' } as const;
const comment = '';

/** A process that starts on the kernel. */
async function start(kernel: FakeKernel, isWanted = true): Promise<TableOwnership> {
  const ownership = new TableOwnership(layout, isWanted);
  await ownership.prepare(kernel, async (ops) => kernel.applyNow(ops));
  return ownership;
}

function make(kernel: FakeKernel, ownership: TableOwnership): void {
  expect(kernel.applyNow(batch({ kind: ownership.op, ...table, comment })).kind).toBe('applied');
  ownership.made();
}

const owner = (kernel: FakeKernel): boolean =>
  kernel.isOwn(kernel.table(table.family, table.table)!.owner);

describe('the ownership of a table', () => {
  it('begins when the table is created, and passes from process to process', async () => {
    const kernel = new FakeKernel();
    const first = await start(kernel);
    make(kernel, first);
    expect(first.exposed).toEqual([]);
    for (let i = 0; i < 3; i += 1) {
      kernel.restart();
      expect(owner(kernel)).toBe(false);
      const { commits, writes } = kernel;
      const next = await start(kernel);
      expect(owner(kernel)).toBe(true);
      expect([kernel.commits - commits, kernel.writes - writes]).toEqual([1, 1]);
      expect(next.exposed).toEqual([]);
    }
  });

  it('is not taken twice in one process', async () => {
    const kernel = new FakeKernel();
    make(kernel, await start(kernel));
    const { commits } = kernel;
    const again = await start(kernel);
    expect(kernel.commits).toBe(commits);
    expect(again.exposed).toEqual([]);
  });

  it.for([
    ['is not wanted', false, true],
    ['is not known to the kernel', true, false],
  ] as const)('is omitted if it %s', async ([, isWanted, isKnown]) => {
    const kernel = new FakeKernel();
    kernel.hasOwnership = isKnown;
    const ownership = await start(kernel, isWanted);
    expect(ownership.op).toBe('tableAdd');
    make(kernel, ownership);
    expect(ownership.exposed).toEqual([table]);
  });

  it.for([
    ['of no op', undefined],
    ['of an op', 0],
  ])('is asked about again after a lack of memory, which the kernel reports %s', async ([, op]) => {
    for (const isKnown of [true, false]) {
      const kernel = new FakeKernel();
      kernel.hasOwnership = isKnown;
      kernel.failNext({ code: 'ENOMEM', ...(op !== undefined && { op: Number(op) }) });
      const ownership = new TableOwnership(layout, true);
      const prepare = () => ownership.prepare(kernel, async (ops) => kernel.applyNow(ops));
      await expect(prepare()).rejects.toMatchObject({ code: 'ENOMEM' });
      await prepare();
      expect(ownership.op).toBe(isKnown ? 'tableOwn' : 'tableAdd');
    }
  });

  it('is not added to a table without an owner, and not used if disabled', async () => {
    const kernel = new FakeKernel();
    make(kernel, await start(kernel, false));
    kernel.restart();
    const { commits } = kernel;
    expect((await start(kernel)).exposed).toEqual([table]);
    expect(kernel.commits).toBe(commits);
    kernel.applyNow(batch({ kind: 'tableDelete', ...table }));
    make(kernel, await start(kernel));
    kernel.restart();
    expect((await start(kernel, false)).exposed).toEqual([table]);
    expect(owner(kernel)).toBe(false);
  });

  it('waits for another process', async () => {
    const kernel = new FakeKernel();
    kernel.foreign(batch({ kind: 'tableOwn', ...table, comment }));
    const error = await start(kernel).catch((reason: unknown) => reason);
    expect(isKernelError(error, 'EBUSY')).toBe(true);
    const { isHeld, message } = error as KernelError;
    expect(isHeld).toBe(true);
    expect(message).toBe(
      'nft.table.own table ip t: another process owns it, at netlink port 65535 (EBUSY)',
    );
  });
});

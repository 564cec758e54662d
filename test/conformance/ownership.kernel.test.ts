/** Tables that belong to a socket, in the kernel and in the fake. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { openKernel } from '../../src/kernel/native-kernel.ts';
import { NF_INET, NFPROTO, NFT_TABLE } from '../../src/kernel/nft/constants.ts';
import type { NftOp } from '../../src/kernel/ops.ts';
import { FakeKernel } from '../fake/kernel.ts';
import { hangsMs } from '../lab/pace.ts';
import { createNamespace } from './namespace.ts';
import { batch, dumped } from './ops.ts';

const inTable = { family: NFPROTO.IPv4, table: 't' } as const;
const comment = 'a table';
const own: NftOp = { kind: 'tableOwn', ...inTable, comment };
const borrow: NftOp = { kind: 'tableBorrow', ...inTable, comment };
const add: NftOp = { kind: 'tableAdd', ...inTable, comment };
const remove: NftOp = { kind: 'tableDelete', ...inTable };
const chain: NftOp = { kind: 'chainAdd', ...inTable, chain: 'c', comment: '' };
const base: NftOp = {
  kind: 'baseChainAdd',
  ...inTable,
  chain: 'in',
  type: 'filter',
  hook: NF_INET.LOCAL_IN,
  priority: 0,
  policy: 1,
  comment: '',
};

/** Two processes on one kernel. */
interface Stage {
  first(): Kernel;
  /** Ends the first process, and starts another one in its place. */
  restart(): Promise<void>;
  /** Applies ops of the other program. Resolves to the codes of those that were refused. */
  other(...ops: NftOp[]): Promise<string[]>;
}

async function codes(kernel: Kernel, ...ops: NftOp[]): Promise<string[]> {
  const result = await kernel.apply(batch(...ops));
  return result.kind === 'applied' ? [] : result.failures.map(({ code }) => code);
}

async function realStage(): Promise<Stage> {
  const namespace = await createNamespace();
  let kernel = openKernel({ netns: namespace.path });
  const others = openKernel({ netns: namespace.path });
  onTestFinished(() => {
    kernel.close();
    others.close();
  });
  return {
    first: () => kernel,
    restart: async () => {
      kernel.close();
      kernel = openKernel({ netns: namespace.path });
      // The socket's thread closes it a moment later.
      while ((await look(kernel)).owner !== 'none') await sleep(1);
    },
    other: (...ops) => codes(others, ...ops),
  };
}

function fakeStage(): Stage {
  const kernel = new FakeKernel();
  return {
    first: () => kernel,
    restart: async () => kernel.restart(),
    other: async (...ops) => {
      try {
        kernel.foreign(batch(...ops));
        return [];
      } catch (error) {
        return [/"code":"(\w+)"/.exec(String(error))![1]!];
      }
    },
  };
}

async function look(kernel: Kernel): Promise<{ owner: string; flags: number }> {
  const tables = await dumped(kernel, 'table', { kind: 'tablesDump', family: NFPROTO.IPv4 });
  const found = tables.find(({ table }) => table === 't');
  if (found === undefined) return { owner: 'none', flags: -1 };
  const owner = found.owner === 0 ? 'none' : kernel.isOwn(found.owner) ? 'us' : 'another';
  return { owner, flags: found.flags };
}

const owned = NFT_TABLE.OWNER | NFT_TABLE.PERSIST;

describe.each([
  ['the real kernel', realStage],
  ['the fake', async () => fakeStage()],
] as const)('%s', (_, stageOf) => {
  it('prevents other programs from changing owned tables, and permits reading', async () => {
    const stage = await stageOf();
    const kernel = stage.first();
    expect(await codes(kernel, own, chain, base)).toEqual([]);
    expect(await look(kernel)).toEqual({ owner: 'us', flags: owned });
    expect(await stage.other(chain)).toEqual(['EPERM']);
    expect(await stage.other(remove)).toEqual(['EPERM']);
    expect(await stage.other(own)).toEqual(['EPERM']);
    expect(await stage.other(add)).toEqual(['EPERM']);
    expect(await codes(kernel, own, { ...chain, chain: 'd' })).toEqual([]);
  });

  it('keeps the table when its owner ends, to be changed or owned by any program', async () => {
    const stage = await stageOf();
    expect(await codes(stage.first(), own, chain, base)).toEqual([]);
    await stage.restart();
    expect(await look(stage.first())).toEqual({ owner: 'none', flags: NFT_TABLE.PERSIST });
    expect(await stage.other({ ...chain, chain: 'd' })).toEqual([]);
    expect(await codes(stage.first(), own)).toEqual([]);
    expect(await look(stage.first())).toEqual({ owner: 'us', flags: owned });
    expect(await stage.other(remove)).toEqual(['EPERM']);
  });

  it('deletes a table that was owned temporarily when its owner ends, with all contents', async () => {
    const stage = await stageOf();
    expect(await codes(stage.first(), borrow, chain, base)).toEqual([]);
    expect(await look(stage.first())).toEqual({ owner: 'us', flags: NFT_TABLE.OWNER });
    expect(await stage.other(chain)).toEqual(['EPERM']);
    await stage.restart();
    await expect
      .poll(() => look(stage.first()), { timeout: hangsMs })
      .toEqual({ owner: 'none', flags: -1 });
  });

  it('creates everything but base chains in the batch in which a table gets an owner', async () => {
    const stage = await stageOf();
    expect(await codes(stage.first(), own, chain)).toEqual([]);
    await stage.restart();
    expect(await codes(stage.first(), own, base)).toEqual(['EINVAL']);
    expect(await look(stage.first())).toEqual({ owner: 'none', flags: NFT_TABLE.PERSIST });
    expect(await codes(stage.first(), own, { ...chain, chain: 'd' })).toEqual([]);
    expect(await codes(stage.first(), base)).toEqual([]);
  });

  it('gives no owner to a table that never had one, unless it is recreated', async () => {
    const stage = await stageOf();
    expect(await codes(stage.first(), add, chain)).toEqual([]);
    expect(await codes(stage.first(), own)).toEqual(['EOPNOTSUPP']);
    expect(await look(stage.first())).toEqual({ owner: 'none', flags: 0 });
    expect(await codes(stage.first(), remove, own, base)).toEqual([]);
    expect(await look(stage.first())).toEqual({ owner: 'us', flags: owned });
  });
});

it('nft lists an owned table, and its `flush ruleset` skips it', async () => {
  const namespace = await createNamespace();
  const kernel = openKernel({ netns: namespace.path });
  onTestFinished(() => kernel.close());
  await namespace.run('nft', ['add', 'table', 'ip', 'other']);
  expect(await codes(kernel, own, chain, base)).toEqual([]);
  await namespace.run('nft', ['flush', 'ruleset']);
  const listing = await namespace.run('nft', ['list', 'ruleset']);
  expect(listing).toContain('table ip t {');
  expect(listing).toContain('chain c {');
  expect(listing).toContain('hook input');
  expect(listing).not.toContain('other');
});

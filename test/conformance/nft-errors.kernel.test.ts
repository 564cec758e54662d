/** Refusals of the kernel: op, entry and text of the error, and that nothing is applied. */
import { expect, test } from 'vitest';
import type { KernelFailure } from '../../src/kernel/kernel.ts';
import { openKernel } from '../../src/kernel/native-kernel.ts';
import { NFPROTO, NFT_SET, NFT_TYPE, VERDICT } from '../../src/kernel/nft/constants.ts';
import { ElementShape, type NftOp } from '../../src/kernel/ops.ts';
import { createKernel } from './namespace.ts';
import { addressSet, applied, batch, bytes, noBytes, rule } from './ops.ts';

const table = { family: NFPROTO.IPv4, table: 't' } as const;
const inChain = { ...table, chain: 'c' } as const;
const inSet = { ...table, set: 's' } as const;
const addTable: NftOp = { kind: 'tableAdd', ...table, comment: '' };
const addMap: NftOp = {
  kind: 'setAdd',
  ...inSet,
  ...addressSet,
  flags: NFT_SET.MAP,
  dataType: NFT_TYPE.ipv4_addr,
  dataLength: 4,
};
const layout = { shape: ElementShape.data, keyLength: 4, dataLength: 4 } as const;

function elements(kind: 'elementsAdd' | 'elementsDelete', ...entries: string[]): NftOp {
  const packed = bytes(...entries);
  return { kind, ...inSet, ...layout, count: entries.length, entries: packed };
}

function jumpTo(chain: string): Uint8Array {
  return rule({ kind: 'immediateVerdict', code: VERDICT.jump, chain });
}

const words = expect.any(String) as string;

function failure(fields: Partial<KernelFailure>): KernelFailure {
  return { op: undefined, entry: undefined, code: '', message: words, ...fields };
}

/** Applies ops that must fail, and checks that the ruleset is as before. */
async function refused(
  setUp: readonly NftOp[],
  ops: readonly NftOp[],
): Promise<readonly KernelFailure[]> {
  const { kernel, namespace } = await createKernel();
  if (setUp.length > 0) await applied(kernel, ...setUp);
  const before = await namespace.run('nft', ['list', 'ruleset']);
  const generation = await kernel.generation();
  const result = await kernel.apply(batch(...ops));
  expect(await namespace.run('nft', ['list', 'ruleset'])).toBe(before);
  expect(await kernel.generation()).toBe(generation);
  return result.kind === 'failed' ? result.failures : [];
}

test('a rule for a chain that does not exist: ENOENT with the index of its op', async () => {
  const add: NftOp = { kind: 'ruleAdd', ...inChain, expressions: noBytes, comment: '' };
  expect(await refused([], [addTable, add])).toEqual([failure({ op: 1, code: 'ENOENT' })]);
});

test('a jump to a chain that does not exist: ENOENT', async () => {
  const chain: NftOp = { kind: 'chainAdd', ...inChain, comment: '' };
  const add: NftOp = { kind: 'ruleAdd', ...inChain, expressions: jumpTo('absent'), comment: '' };
  expect(await refused([addTable], [chain, add])).toEqual([failure({ op: 1, code: 'ENOENT' })]);
});

test('a key with other data: EEXIST with the index of op and entry', async () => {
  const failures = await refused(
    [addTable, addMap, elements('elementsAdd', '0a0000010b000001', '0a0000020b000002')],
    [
      elements('elementsAdd', '0a0000090b000009'),
      elements('elementsAdd', '0a0000010b000001', '0a0000030b000003', '0a0000020b0000ff'),
    ],
  );
  expect(failures).toEqual([failure({ op: 1, entry: 2, code: 'EEXIST', message: 'File exists' })]);
});

test('one key twice in a batch with other data: EEXIST', async () => {
  const failures = await refused(
    [addTable, addMap],
    [elements('elementsAdd', '0a0000010b000001', '0a0000010b000002')],
  );
  expect(failures).toEqual([failure({ op: 0, entry: 1, code: 'EEXIST' })]);
});

test('the deletion of a missing element: ENOENT with op and entry', async () => {
  const failures = await refused(
    [addTable, addMap, elements('elementsAdd', '0a0000010b000001')],
    [elements('elementsDelete', '0a0000010b000001', '0a0000070b000007')],
  );
  expect(failures).toEqual([failure({ op: 0, entry: 1, code: 'ENOENT' })]);
});

test('the refused entry is found among many messages of one op', async () => {
  const count = 5000;
  const entries = new Uint8Array(count * 8);
  const view = new DataView(entries.buffer);
  for (let i = 0; i < count; i += 1) view.setUint32(i * 8, i);
  view.setUint32(4321 * 8, 7);
  view.setUint32(4321 * 8 + 4, 0xffffffff);
  const add: NftOp = { kind: 'elementsAdd', ...inSet, ...layout, count, entries };
  const failures = await refused([addTable, addMap], [add]);
  expect(failures).toEqual([failure({ op: 0, entry: 4321, code: 'EEXIST' })]);
});

test('several bad ops are all reported, in their order', async () => {
  const failures = await refused(
    [addTable],
    [
      { kind: 'chainDelete', ...inChain },
      { kind: 'chainAdd', ...table, chain: 'good', comment: '' },
      { kind: 'setDelete', ...inSet },
      { kind: 'tableDelete', family: NFPROTO.IPv6, table: 't' },
    ],
  );
  expect(failures).toEqual([0, 2, 3].map((op) => failure({ op, code: 'ENOENT' })));
});

test('thousands of bad ops are all reported', async () => {
  const { kernel } = await createKernel();
  const ops = Array.from({ length: 2000 }, (): NftOp => ({ kind: 'setDelete', ...inSet }));
  const result = await kernel.apply(batch(addTable, ...ops));
  const found = result.kind === 'failed' ? result.failures.map(({ op }) => op) : [];
  expect(found).toEqual(ops.map((_, index) => index + 1));
});

test('a loop of jumps: EMLINK, with the op that closes it', async () => {
  const failures = await refused(
    [addTable],
    [
      {
        kind: 'baseChainAdd',
        ...table,
        chain: 'base',
        type: 'filter',
        hook: 1,
        priority: 0,
        policy: 1,
        comment: '',
      },
      { kind: 'chainAdd', ...inChain, comment: '' },
      { kind: 'ruleAdd', ...table, chain: 'base', expressions: jumpTo('c'), comment: '' },
      { kind: 'ruleAdd', ...inChain, expressions: jumpTo('c'), comment: '' },
    ],
  );
  // For a loop the kernel reports too many levels of jumps. It validates again to find the op.
  expect(failures).toEqual([failure({ op: 3, code: 'EMLINK' })]);
});

test('the deletion of a chain in use: EBUSY', async () => {
  const failures = await refused(
    [
      addTable,
      { kind: 'chainAdd', ...inChain, comment: '' },
      { kind: 'chainAdd', ...table, chain: 'user', comment: '' },
      { kind: 'ruleAdd', ...table, chain: 'user', expressions: jumpTo('c'), comment: '' },
    ],
    [{ kind: 'chainDelete', ...inChain }],
  );
  expect(failures).toEqual([failure({ op: 0, code: 'EBUSY' })]);
});

test('a set that is full: ENFILE with the entry', async () => {
  const small: NftOp = { ...(addMap as Extract<NftOp, { kind: 'setAdd' }>), size: 2 };
  const three = elements('elementsAdd', '010000010b000001', '010000020b000002', '010000030b000003');
  const failures = await refused([addTable, small], [three]);
  expect(failures).toEqual([failure({ op: 0, entry: 2, code: 'ENFILE' })]);
});

test.each([
  ['a name of 70,000 bytes', { ...addTable, table: 'n'.repeat(70_000) }, 'op.attribute is longer'],
  ['a comment of 254 bytes', { ...addTable, comment: 'c'.repeat(254) }, 'comment.text is longer'],
])('%s cannot be encoded: EINVAL', async (_, op, message) => {
  const [only] = await refused([], [op as NftOp]);
  expect(only).toMatchObject({ op: 0, code: 'EINVAL', message: expect.stringContaining(message) });
});

test('without the permission to change the network: EPERM for apply and for dump', async () => {
  const script = `
    import { openKernel } from './src/kernel/native-kernel.ts';
    import { nftOps } from './src/kernel/ops.ts';
    import { RecordWriter } from './src/kernel/records.ts';
    const kernel = openKernel();
    const writer = new RecordWriter(nftOps);
    writer.write('tableAdd', { family: 2, table: 'fairlead-test', comment: '' });
    const applied = await kernel.apply(writer.finish());
    const dumped = await kernel.dump({ kind: 'tablesDump', family: 0 }).catch(String);
    console.log(JSON.stringify({ applied, dumped }));
  `;
  const { namespace } = await createKernel();
  // A new user namespace has every capability, but not over the network that it came from.
  const node = ['--user', process.execPath, '--input-type=module', '-e', script];
  const output = await namespace.run('unshare', node);
  expect(JSON.parse(output)).toEqual({
    applied: {
      kind: 'failed',
      failures: [{ code: 'EPERM', message: 'Operation not permitted' }],
      partly: false,
    },
    dumped: 'KernelError: nft.tablesDump this namespace: Operation not permitted (EPERM)',
  });
});

test('a namespace that does not exist rejects with ENOENT and its path', async () => {
  const kernel = openKernel({ netns: '/run/netns/fairlead-absent' });
  const subject = '/run/netns/fairlead-absent';
  await expect(kernel.apply(batch(addTable))).rejects.toMatchObject({
    name: 'KernelError',
    operation: 'kernel.apply',
    subject,
    code: 'ENOENT',
  });
  await expect(kernel.generation()).rejects.toMatchObject({ subject, code: 'ENOENT' });
  kernel.close();
});

test('answers that do not fit the receive buffer make the outcome failed, not applied', async () => {
  const { namespace } = await createKernel();
  const kernel = openKernel({ netns: namespace.path, receiveBufferBytes: 2048 });
  const ops = Array.from({ length: 500 }, (): NftOp => ({ kind: 'setDelete', ...inSet }));
  const result = await kernel.apply(batch(addTable, ...ops));
  expect(result.kind).toBe('failed');
  expect(await namespace.run('nft', ['list', 'ruleset'])).toBe('');
  // The socket can still be used.
  expect(await kernel.apply(batch(addTable))).toEqual({ kind: 'applied' });
  kernel.close();
});

test('a dump during other commits is marked, or it is consistent', async () => {
  const { kernel, namespace } = await createKernel();
  const other = openKernel({ netns: namespace.path });
  const count = 30_000;
  const entries = new Uint8Array(count * 8);
  const view = new DataView(entries.buffer);
  for (let i = 0; i < count; i += 1) view.setUint32(i * 8, i);
  await applied(kernel, addTable, addMap, {
    kind: 'elementsAdd',
    ...inSet,
    ...layout,
    count,
    entries,
  });
  const addOther: NftOp = { kind: 'tableAdd', family: NFPROTO.IPv6, table: 'u', comment: '' };
  const deleteOther: NftOp = { kind: 'tableDelete', family: NFPROTO.IPv6, table: 'u' };
  let marked = 0;
  for (let round = 0; round < 50 && marked === 0; round += 1) {
    const dump = kernel.dump({ kind: 'elementsDump', ...inSet, ...layout });
    const commits = Array.from({ length: 20 }, (_, i) =>
      other.apply(batch(i % 2 === 0 ? addOther : deleteOther)),
    );
    const { records, consistent } = await dump;
    await Promise.all(commits);
    const sizes = records.map((each) => (each.kind === 'elements' ? each.count : 0));
    if (!consistent) marked += 1;
    else expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(count);
  }
  other.close();
  expect(marked).toBe(1);
});

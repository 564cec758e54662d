/** Elements of sets and maps of every kind: written packed, read back packed, listed by nft(8). */
import { expect, test } from 'vitest';
import type { Kernel } from '../../src/kernel/kernel.ts';
import {
  concatBytes,
  concatType,
  NFPROTO,
  NFT_DATA_VERDICT,
  NFT_SET,
  NFT_SET_ELEM_INTERVAL_END,
  NFT_TYPE,
  VERDICT,
} from '../../src/kernel/nft/constants.ts';
import { compileRule, interfaceBytes, type Statement } from '../../src/kernel/nft/rule.ts';
import { connectionsOver, counter, rateOver } from '../../src/kernel/nft/stateful.ts';
import { ElementShape, expressions, type NftOp } from '../../src/kernel/ops.ts';
import { readRecords } from '../../src/kernel/records.ts';
import { createKernel } from './namespace.ts';
import { addressSet, applied, batch, bytes, dumped, u16Be, u32, u64, verdict } from './ops.ts';

const table = { family: NFPROTO.IPv4, table: 't' } as const;
const inSet = { ...table, set: 's' } as const;
const addTable: NftOp = { kind: 'tableAdd', ...table, comment: '' };
const addSet = { kind: 'setAdd', ...inSet, ...addressSet } as const;

interface Layout {
  readonly shape: number;
  readonly keyLength: number;
  readonly dataLength: number;
}

function elements(
  kind: 'elementsAdd' | 'elementsDelete',
  layout: Layout,
  entries: readonly Uint8Array[],
): NftOp {
  return { kind, ...inSet, ...layout, count: entries.length, entries: Buffer.concat(entries) };
}

/** The entries of the set, as hexadecimal digits in their order. */
async function entriesOf(kernel: Kernel, layout: Layout): Promise<string[]> {
  const request = { kind: 'elementsDump', ...inSet, ...layout } as const;
  const replies = await dumped(kernel, 'elements', request);
  return replies
    .flatMap(({ entries, count }) => {
      const length = entries.length / count;
      return Array.from({ length: count }, (_, i) =>
        hex(entries.subarray(i * length, (i + 1) * length)),
      );
    })
    .sort();
}

function hex(entry: Uint8Array): string {
  return Buffer.from(entry).toString('hex');
}

/** Adds the entries, reads them, lists them, and deletes them again. */
async function roundTrip(
  set: Omit<Extract<NftOp, { kind: 'setAdd' }>, 'kind'>,
  layout: Layout,
  entries: readonly Uint8Array[],
  listing: readonly string[],
): Promise<void> {
  const { kernel, namespace } = await createKernel();
  const chain: NftOp = { kind: 'chainAdd', ...table, chain: 'backends', comment: '' };
  await applied(kernel, addTable, chain, { kind: 'setAdd', ...set });
  await applied(kernel, elements('elementsAdd', layout, entries));
  expect(await entriesOf(kernel, layout)).toEqual(entries.map(hex).sort());

  const text = await namespace.run('nft', ['list', 'set', 'ip', 't', 's']).catch(() => {
    return namespace.run('nft', ['list', 'map', 'ip', 't', 's']);
  });
  for (const element of listing) expect(text.replaceAll(/\s+/g, ' ')).toContain(element);
  await namespace.run('nft', ['-j', 'list', 'ruleset']);

  await applied(kernel, elements('elementsDelete', layout, entries));
  expect(await entriesOf(kernel, layout)).toEqual([]);
}

const plain = { shape: 0, keyLength: 4, dataLength: 0 } as const;

test('a set of addresses', async () => {
  await roundTrip(addSet, plain, [bytes('0a000001'), bytes('0a000002')], ['10.0.0.1, 10.0.0.2']);
});

test('a set with a key that is not a multiple of four bytes', async () => {
  const set = { ...addSet, keyType: NFT_TYPE.inet_service, keyLength: 2 };
  const entries = [u16Be(53), u16Be(443), u16Be(30_000)];
  await roundTrip(set, { ...plain, keyLength: 2 }, entries, ['53, 443', '30000']);
});

test('a set of names of devices', async () => {
  const set = { ...addSet, keyType: NFT_TYPE.ifname, keyLength: 16 };
  const entries = ['eth0', 'cali0123456789a'].map(interfaceBytes);
  await roundTrip(set, { ...plain, keyLength: 16 }, entries, ['"eth0"', '"cali0123456789a"']);
});

const frontendParts = ['ipv4_addr', 'inet_proto', 'inet_service'] as const;
const endpointParts = [...frontendParts, 'mark'] as const;
const backendParts = ['ipv4_addr', 'inet_service'] as const;

function frontend(address: string, port: number): Uint8Array {
  return bytes(address, '06000000', u16Be(port), '0000');
}

test('a map of endpoints: a concatenation to a concatenation', async () => {
  const layout = { shape: ElementShape.data, keyLength: 16, dataLength: 8 };
  const set = {
    ...addSet,
    flags: NFT_SET.MAP,
    keyType: concatType(endpointParts),
    keyLength: concatBytes(endpointParts),
    dataType: concatType(backendParts),
    dataLength: concatBytes(backendParts),
  };
  const entries = [0, 1, 2].map((index) =>
    bytes(frontend('0a600001', 80), u32(index), '0af40105', u16Be(8080 + index), '0000'),
  );
  const first = '10.96.0.1 . tcp . 80 . 0x00000000 : 10.244.1.5 . 8080';
  await roundTrip(set, layout, entries, [first, '. 0x00000002 : 10.244.1.5 . 8082']);
});

test('a verdict map: verdicts with and without a chain', async () => {
  const layout = { shape: ElementShape.verdict, keyLength: 12, dataLength: 0 };
  const set = {
    ...addSet,
    flags: NFT_SET.MAP,
    keyType: concatType(frontendParts),
    keyLength: concatBytes(frontendParts),
    dataType: NFT_DATA_VERDICT,
  };
  const { kernel, namespace } = await createKernel();
  const chain: NftOp = { kind: 'chainAdd', ...table, chain: 'backends', comment: '' };
  await applied(kernel, addTable, chain, set);
  const entries = [
    bytes(frontend('0a600001', 80), verdict(VERDICT.goto, 'backends')),
    bytes(frontend('0a600001', 81), verdict(VERDICT.jump, 'backends')),
    bytes(frontend('0a600001', 82), verdict(VERDICT.drop)),
    bytes(frontend('0a600001', 83), verdict(VERDICT.accept)),
    bytes(frontend('0a600001', 84), verdict(VERDICT.return)),
  ];
  await applied(kernel, elements('elementsAdd', layout, entries));
  const request = { kind: 'elementsDump', ...inSet, ...layout } as const;
  const [reply] = await dumped(kernel, 'elements', request);
  expect(reply!.count).toBe(5);
  const all = Buffer.from(reply!.entries);
  for (const entry of entries) expect(all.includes(Buffer.from(entry))).toBe(true);
  expect(all.length).toBe(Buffer.concat(entries).length);

  const listing = await namespace.run('nft', ['list', 'map', 'ip', 't', 's']);
  expect(listing).toContain('10.96.0.1 . tcp . 80 : goto backends');
  expect(listing).toContain('10.96.0.1 . tcp . 84 : return');
  await applied(kernel, elements('elementsDelete', layout, entries.slice(0, 4)));
  expect(await entriesOf(kernel, layout)).toEqual([hex(entries[4]!)]);
});

test('an interval set: each interval is a start and an end', async () => {
  const layout = { shape: ElementShape.flags, keyLength: 4, dataLength: 0 };
  const entries = [
    bytes('0a000000', u32(0)),
    bytes('0a000100', u32(NFT_SET_ELEM_INTERVAL_END)),
    bytes('c0a80000', u32(0)),
    bytes('c0a90000', u32(NFT_SET_ELEM_INTERVAL_END)),
    // nft also writes an element for the part below the first interval, and so do we.
    bytes('00000000', u32(NFT_SET_ELEM_INTERVAL_END)),
  ];
  const set = { ...addSet, flags: NFT_SET.INTERVAL };
  await roundTrip(set, layout, entries, ['10.0.0.0/24, 192.168.0.0/16']);
});

test('an element with a comment is returned with counts, one that all other keys match only counted', async () => {
  const { kernel, namespace } = await createKernel();
  const map = { ...addSet, flags: NFT_SET.MAP, dataType: NFT_TYPE.ipv4_addr, dataLength: 4 };
  await applied(kernel, addTable, map);
  const layout = { shape: ElementShape.flags | ElementShape.data, keyLength: 4, dataLength: 4 };
  const entries = [bytes('00000000', u32(2), '0b000001'), bytes('0a000001', u32(0), '0b000002')];
  await applied(kernel, elements('elementsAdd', layout, entries));
  expect(await namespace.run('nft', ['list', 'map', 'ip', 't', 's'])).toContain('* : 11.0.0.1');
  const more = '{ 10.0.0.2 comment "mine" : 11.0.0.3 }';
  await namespace.run('nft', ['add', 'element', 'ip', 't', 's', more]);
  const read = await dumped(kernel, 'elements', { kind: 'elementsDump', ...inSet, ...layout });
  expect(read.map(({ count, strange }) => [count, strange])).toEqual([[2, 2]]);
  const entry = bytes('0a000002', u32(0), '0b000003');
  expect(await entriesOf(kernel, layout)).toEqual([hex(entries[1]!), hex(entry)]);
  await applied(
    kernel,
    elements('elementsDelete', { ...plain, shape: ElementShape.flags }, [
      bytes('0a000001', u32(0)),
      bytes('0a000002', u32(0)),
    ]),
  );
  const left = await dumped(kernel, 'elements', { kind: 'elementsDump', ...inSet, ...layout });
  expect(left).toMatchObject([{ count: 0, strange: 1 }]);
});

test('100,000 elements are added in one batch, and all of them are read', async () => {
  const { kernel, namespace } = await createKernel();
  const layout = { shape: ElementShape.data, keyLength: 8, dataLength: 4 };
  const set = {
    ...addSet,
    flags: NFT_SET.MAP,
    keyType: concatType(backendParts),
    keyLength: 8,
    dataType: NFT_TYPE.ipv4_addr,
    dataLength: 4,
  };
  const count = 100_000;
  const entries = new Uint8Array(count * 12);
  const view = new DataView(entries.buffer);
  for (let i = 0; i < count; i += 1) {
    view.setUint32(i * 12, 0x0a000000 + (i >> 4));
    view.setUint16(i * 12 + 4, 1 + (i & 15));
    view.setUint32(i * 12 + 8, 0xc0000000 + i);
  }
  const add: NftOp = { kind: 'elementsAdd', ...inSet, ...layout, count, entries };
  const before = await kernel.generation();
  await applied(kernel, addTable, set, add);
  expect(await kernel.generation()).toBe(before + 1);

  const read = await entriesOf(kernel, layout);
  expect(read).toHaveLength(count);
  const written = Array.from({ length: count }, (_, i) =>
    hex(entries.subarray(i * 12, i * 12 + 12)),
  );
  expect(read.join() === written.sort().join()).toBe(true);
  const listing = await namespace.run('nft', ['list', 'map', 'ip', 't', 's']);
  expect(listing.match(/ : /g)).toHaveLength(count + 1);

  await applied(kernel, { kind: 'elementsDelete', ...inSet, ...layout, count, entries });
  expect(await entriesOf(kernel, layout)).toEqual([]);
});

test('an op without entries changes nothing; a flush empties the set', async () => {
  const { kernel } = await createKernel();
  await applied(kernel, addTable, addSet, elements('elementsAdd', plain, [bytes('0a000001')]));
  await applied(kernel, elements('elementsDelete', plain, []), elements('elementsAdd', plain, []));
  expect(await entriesOf(kernel, plain)).toEqual(['0a000001']);
  await applied(kernel, { kind: 'setFlush', ...inSet });
  expect(await entriesOf(kernel, plain)).toEqual([]);
});

test('adding an element again with the same data is not an error', async () => {
  const { kernel } = await createKernel();
  const again = elements('elementsAdd', plain, [bytes('0a000001')]);
  await applied(kernel, addTable, addSet, again);
  await applied(kernel, again, again);
  expect(await entriesOf(kernel, plain)).toEqual(['0a000001']);
});

test.each([
  [{ ...plain, keyLength: 8 }, 'element has a key of another length than asked for'],
  [{ shape: ElementShape.data, keyLength: 4, dataLength: 65 }, 'at most 64 bytes'],
])('a dump with %o is rejected with EPROTO', async (layout, words) => {
  const { kernel } = await createKernel();
  await applied(kernel, addTable, addSet, elements('elementsAdd', plain, [bytes('0a000001')]));
  const asked = kernel.dump({ kind: 'elementsDump', ...inSet, ...layout });
  await expect(asked).rejects.toMatchObject({
    code: 'EPROTO',
    operation: 'nft.elementsDump',
    subject: 'set s of table t',
    message: expect.stringContaining(words) as string,
  });
  expect(await entriesOf(kernel, plain)).toEqual(['0a000001']);
});

test.each([
  ['a counter', ElementShape.counter, 'has a part of dumps'],
  ['an unknown part', 256, 'has an unknown part'],
  ['data and a verdict', ElementShape.data | ElementShape.verdict, 'has both data and a verdict'],
])('elements with %s are rejected with EINVAL', async (_, shape, words) => {
  const { kernel } = await createKernel();
  const op = elements('elementsAdd', { ...plain, shape }, [new Uint8Array(64)]);
  expect(await kernel.apply(batch(op))).toMatchObject({
    kind: 'failed',
    failures: [{ op: 0, code: 'EINVAL', message: expect.stringContaining(words) as string }],
  });
});

test('elements of a set with a counter count, and are known to a dump that expects it', async () => {
  const { kernel, namespace } = await createKernel();
  await applied(kernel, addTable, { ...addSet, statement: compileRule([counter]) });
  await applied(kernel, elements('elementsAdd', plain, [bytes('0a000001'), bytes('7f000001')]));
  const [set] = await dumped(kernel, 'set', { kind: 'setsDump', ...table });
  expect(set).toMatchObject({ statement: compileRule([counter]) });
  await namespace.run('nft', ['add chain ip t c { type filter hook output priority 0 ; }']);
  await namespace.run('nft', ['add rule ip t c meta l4proto udp ip daddr @s']);
  await namespace.run('ip', ['link', 'set', 'lo', 'up']);
  const program =
    "const s = require('dgram').createSocket('udp4'); s.send('x', 9, '127.0.0.1');" +
    "s.send('y', 9, '127.0.0.1', () => s.close());";
  await namespace.run(process.execPath, ['-e', program]);
  const layout = { ...plain, shape: ElementShape.counter };
  expect(await entriesOf(kernel, layout)).toEqual([
    hex(bytes('0a000001', u64(0))),
    hex(bytes('7f000001', u64(2))),
  ]);
  const strangeOf = async (shape: number): Promise<number[]> => {
    const request = { kind: 'elementsDump', ...inSet, ...plain, shape } as const;
    return (await dumped(kernel, 'elements', request)).map(({ strange }) => strange);
  };
  expect(await strangeOf(ElementShape.counter)).toEqual([0]);
  expect(await strangeOf(0)).toEqual([2]);
});

test.each<[string, Statement]>([
  ['ct count over 3', connectionsOver(3)],
  ['limit rate over 50/second burst 50 packets', rateOver(50)],
  ['limit rate over 50/minute burst 70 packets', rateOver(50, 70, 'minute')],
])('elements of a set have the statement %s, as nft writes it', async (words, statement) => {
  const { kernel, namespace } = await createKernel();
  await namespace.run('nft', ['-f', '-'], `table ip u { ${setOf(words)} }`);
  const flags = NFT_SET.EVAL;
  const op = { ...addSet, flags, statement: compileRule([statement]) };
  await applied(kernel, addTable, op);
  for (const name of ['t', 'u']) {
    const sets = await dumped(kernel, 'set', { kind: 'setsDump', ...table, table: name });
    expect(sets).toMatchObject([{ statement: op.statement }]);
  }
  expect(await namespace.run('nft', ['list', 'table', 'ip', 't'])).toContain(words);
});

const setOf = (words: string): string => `set s { type ipv4_addr; flags dynamic; ${words}; };`;

test('a set whose elements have several statements is distinguished', async () => {
  const { kernel, namespace } = await createKernel();
  const set = setOf('limit rate 1/second counter');
  await namespace.run('nft', ['-f', '-'], `table ip t { ${set} }`);
  const [found] = await dumped(kernel, 'set', { kind: 'setsDump', ...table });
  const [statement] = readRecords(expressions, found!.statement);
  expect(statement).toEqual({ kind: 'unknown', name: 'several' });
});

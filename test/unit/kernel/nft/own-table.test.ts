/** A table of Fairlead's own, kept as it is desired while other programs change it. */
import { describe, expect, it } from 'vitest';
import { type Elements, OwnTable, upkeep } from '../../../../src/kernel/nft/own-table.ts';
import { fieldsOfSet } from '../../../../src/kernel/nft/sets.ts';
import { nftOps } from '../../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../../src/kernel/records.ts';
import { FakeKernel } from '../../../fake/kernel.ts';

const name = { family: 2, table: 'own', comment: 'ours' } as const;
const set = fieldsOfSet('IPv4', name.table, {
  name: 'ports',
  key: ['inet_service'],
  data: undefined,
  flags: 0,
  size: 0,
  comment: '',
});
const content = { chains: [], sets: [set] } as const;
const keep = () => false;

function ports(...keys: readonly string[]): Elements {
  return { keys: { ports: new Set(keys) }, devices: new Set() };
}

function deletion(): Uint8Array {
  const writer = new RecordWriter(nftOps);
  writer.write('tableDelete', name);
  return writer.finish();
}

it('updates take a twentieth of the time, and rest for two seconds at most', () => {
  expect([1, 99, 101].map(upkeep.restMs)).toEqual([20, 1980, 2000]);
});

/** What programs see of the kernel's watches comes in a later turn. */
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

describe('a table that is kept', () => {
  it('is not read again while no other program changes it', async () => {
    const kernel = new FakeKernel();
    const table = new OwnTable(kernel, name);
    expect((await table.bring(content, ports('aa'), keep)).kind).toBe('made');
    await turn();
    expect((await table.bring(content, ports('aa', 'bb'), keep)).kind).toBe('kept');
    const dump = kernel.dump.bind(kernel);
    const asked: string[] = [];
    kernel.dump = (request, take) => {
      asked.push(request.kind);
      return dump(request, take);
    };
    expect((await table.bring(content, ports('bb'), keep)).kind).toBe('kept');
    expect(asked).toEqual([]);
  });

  it('is read again when another program changes it while it is written', async () => {
    const kernel = new FakeKernel();
    const table = new OwnTable(kernel, name);
    await table.bring(content, ports(), keep);
    await turn();
    const apply = kernel.apply.bind(kernel);
    kernel.apply = async (ops) => {
      const result = await apply(ops);
      kernel.apply = apply;
      kernel.foreign(deletion());
      await turn();
      return result;
    };
    await table.bring(content, ports('aa'), keep);
    expect((await table.bring(content, ports('aa'), keep)).kind).toBe('made');
  });

  it('is not taken for absent when the kernel interrupts its list of tables', async () => {
    const kernel = new FakeKernel();
    await new OwnTable(kernel, name).bring(content, ports('aa'), keep);
    kernel.interruptDumps(1);
    expect((await new OwnTable(kernel, name).bring(content, ports('aa'), keep)).kind).toBe('kept');
  });

  it('has the elements that another program has deleted again', async () => {
    const kernel = new FakeKernel();
    const table = new OwnTable(kernel, name);
    await table.bring(content, ports('aa', 'bb'), keep);
    const whole = kernel.ruleset();
    const writer = new RecordWriter(nftOps);
    const shape = { shape: 0, keyLength: 2, dataLength: 0, count: 1 };
    const { family, table: of } = name;
    const entries = Buffer.from('aa');
    writer.write('elementsDelete', { family, table: of, set: 'ports', ...shape, entries });
    kernel.foreign(writer.finish());
    await turn();
    expect((await table.bring(content, ports('aa', 'bb'), keep)).kind).toBe('kept');
    expect(kernel.ruleset()).toBe(whole);
  });

  it('is replaced for another content or on request, and repaired after a change by others', async () => {
    const kernel = new FakeKernel();
    const table = new OwnTable(kernel, name);
    await table.bring(content, ports('aa'), keep);
    expect((await table.bring(content, ports('aa'), () => true)).kind).toBe('replaced');
    const empty = { chains: [], sets: [] } as const;
    expect((await table.bring(empty, ports('aa'), keep)).kind).toBe('replaced');
    await turn();
    const writer = new RecordWriter(nftOps);
    writer.write('setAdd', set);
    kernel.foreign(writer.finish());
    await turn();
    expect((await table.bring(empty, ports('aa'), keep)).kind).toBe('repaired');
  });

  it('is read again when something in it was gone, and not where the kernel lacks a feature', async () => {
    const kernel = new FakeKernel();
    const table = new OwnTable(kernel, name);
    const apply = kernel.apply.bind(kernel);
    const bring = (code: string, key: string) => {
      const failure = { op: 1, entry: undefined, code, message: 'refused' };
      kernel.apply = async () => ({ kind: 'failed', failures: [failure], partly: false });
      return table.bring(content, ports(key), keep).finally(() => (kernel.apply = apply));
    };
    await expect(bring('ENOENT', 'aa')).rejects.toThrow('ENOENT');
    expect((await table.bring(content, ports('aa'), keep)).kind).toBe('made');
    await turn();
    expect((await table.bring(content, ports('aa'), keep)).kind).toBe('kept');
    expect(await bring('ENOENT', 'bb')).toEqual({ kind: 'again', refused: new Map() });
    await expect(bring('ENOMEM', 'bb')).rejects.toThrow('ENOMEM');
    kernel.foreign(deletion());
    expect((await table.bring(content, ports('aa'), keep)).kind).toBe('made');
  });

  it('is left alone when another program has made it', async () => {
    const kernel = new FakeKernel();
    const writer = new RecordWriter(nftOps);
    writer.write('tableAdd', { ...name, comment: 'of others' });
    kernel.foreign(writer.finish());
    const table = new OwnTable(kernel, name);
    expect((await table.bring(content, ports(), keep)).kind).toBe('foreign');
    expect(await table.remove()).toBe(false);
    kernel.foreign(deletion());
    expect((await table.bring(content, ports(), keep)).kind).toBe('made');
    expect(await table.remove()).toBe(true);
  });
});

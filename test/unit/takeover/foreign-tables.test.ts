import { describe, expect, it } from 'vitest';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { nftOps } from '../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../src/kernel/records.ts';
import { tableComment } from '../../../src/modes/nftables/layout.ts';
import { findForeignTables } from '../../../src/takeover/foreign-tables.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { withoutNetfilter } from '../../fake/without-netfilter.ts';
import { write } from './rules.ts';

function withTable(kernel: FakeKernel, table: string, comment: string): FakeKernel {
  const writer = new RecordWriter(nftOps);
  const at = { family: NFPROTO.IPv4, table };
  writer.write('tableAdd', { ...at, comment });
  writer.write('chainAdd', { ...at, chain: 'services', comment: '' });
  kernel.foreign(writer.finish());
  return kernel;
}

describe('a table with our name', () => {
  it('is foreign without our comment, in each family separately', async () => {
    const kernel = new FakeKernel();
    write(kernel, 'fairlead', { mine: [''], services: [''] }, NFPROTO.IPv6);
    write(kernel, 'fairlead-ipvs', { theirs: [''] });
    expect(await findForeignTables(kernel)).toEqual([
      { table: 'ip fairlead-ipvs', objects: ['chain theirs'] },
      { table: 'ip6 fairlead', objects: ['chain mine', 'chain services'] },
    ]);
  });

  it('is ours with our comment, and is attributed to the running mode', async () => {
    expect(await findForeignTables(withTable(new FakeKernel(), 'fairlead', tableComment))).toEqual(
      [],
    );
    const swapped = withTable(new FakeKernel(), 'fairlead-ipvs', tableComment);
    expect(await findForeignTables(swapped)).toMatchObject([{ table: 'ip fairlead-ipvs' }]);
  });

  it('is ignored while it is empty; tables with other names are ignored, too', async () => {
    const kernel = new FakeKernel();
    write(kernel, 'fairlead', {});
    write(kernel, 'nat', { mine: [''] });
    expect(await findForeignTables(kernel)).toEqual([]);
  });

  it('does not exist if the kernel has no nf_tables', async () => {
    expect(await findForeignTables(withoutNetfilter(new FakeKernel()))).toEqual([]);
  });
});

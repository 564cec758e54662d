import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { CannotRun } from '../../vm/cannot-run.ts';
import { moduleFiles, selectModules } from '../../vm/modules.ts';

const work = mkdtempSync(join(tmpdir(), 'fairlead-modules-'));
afterAll(() => rmSync(work, { recursive: true }));

const modulesDep = `kernel/net/netfilter/nf_tables.ko.xz: kernel/lib/libcrc32c.ko.xz
kernel/lib/libcrc32c.ko.xz:
kernel/drivers/net/veth.ko.xz: kernel/net/core/page_pool.ko.xz kernel/drivers/ptp/ptp.ko.xz
kernel/drivers/ptp/ptp.ko.xz:
kernel/drivers/net/ethernet/big/card.ko.xz: kernel/drivers/ptp/ptp.ko.xz
kernel/fs/xfs/xfs.ko.xz: kernel/lib/libcrc32c.ko.xz
extra/mine.ko:
`;

describe('the choice of kernel modules', () => {
  it('includes networking with its dependencies, and no drivers of cards or file systems', () => {
    expect(selectModules(modulesDep)).toEqual([
      'extra/mine.ko',
      'kernel/drivers/net/veth.ko.xz',
      'kernel/drivers/ptp/ptp.ko.xz',
      'kernel/lib/libcrc32c.ko.xz',
      'kernel/net/core/page_pool.ko.xz',
      'kernel/net/netfilter/nf_tables.ko.xz',
    ]);
  });

  it('explains what to do if depmod has not been run', () => {
    expect(() => moduleFiles(work)).toThrow(CannotRun);
    expect(() => moduleFiles(work)).toThrow(/modules\.dep is missing.*depmod/);
  });

  it("puts the modules and depmod's indexes where modprobe looks for them", () => {
    const directory = mkdtempSync(join(work, '6.9.0-'));
    writeFileSync(join(directory, 'modules.dep'), 'kernel/net/a.ko:\n');
    writeFileSync(join(directory, 'modules.alias.bin'), '');
    const release = directory.slice(work.length + 1);
    expect(moduleFiles(directory).map((entry) => entry.path)).toEqual([
      `/usr/lib/modules/${release}/modules.alias.bin`,
      `/usr/lib/modules/${release}/modules.dep`,
      `/usr/lib/modules/${release}/kernel/net/a.ko`,
    ]);
  });
});

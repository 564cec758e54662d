import { describe, expect, it } from 'vitest';
import { parseLdd } from '../../vm/userland.ts';

describe('the list of shared libraries', () => {
  it('has each library and the loader once, and neither the programs nor what is missing', () => {
    const listing = [
      '/usr/sbin/nft:',
      '\tlinux-vdso.so.1 (0x00007ffd2a1f9000)',
      '\tlibnftables.so.1 => /lib/x86_64-linux-gnu/libnftables.so.1 (0x00007f1d2b000000)',
      '\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f1d2ae1f000)',
      '\t/lib64/ld-linux-x86-64.so.2 (0x00007f1d2b17a000)',
      '/usr/bin/cat:',
      '\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f1d2ae1f000)',
      '\tlibmusl.so => not found',
      '/usr/sbin/ldconfig:',
      '\tnot a dynamic executable',
    ];
    expect(parseLdd(listing.join('\n'))).toEqual([
      '/lib/x86_64-linux-gnu/libnftables.so.1',
      '/lib/x86_64-linux-gnu/libc.so.6',
      '/lib64/ld-linux-x86-64.so.2',
    ]);
  });
});

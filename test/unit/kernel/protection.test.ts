import { join } from 'node:path';
import { expect, test } from 'vitest';
import { protectionOf } from '../../lab/elf.ts';

test('the addon is built with the protections of the compiler and the linker', () => {
  const path = join(import.meta.dirname, '../../../build/Release/fairlead.node');
  const { bindsNow, relro, imports } = protectionOf(path);
  expect({ bindsNow, relro }).toEqual({ bindsNow: true, relro: true });
  expect(imports).toContain('__stack_chk_fail');
  // Functions of the C library that check the size of what they write to (FORTIFY).
  expect(imports.filter((name) => /^__\w+_chk$/.test(name))).not.toEqual([]);
});

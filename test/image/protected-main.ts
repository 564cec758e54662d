/** `protected-main.ts ADDON`: fails unless the addon was built with protections, as binding.gyp says. */
import { strict as assert } from 'node:assert';
import { protectionOf } from '../lab/elf.ts';

const { bindsNow, relro, imports } = protectionOf(process.argv[2]!);
assert(bindsNow && relro, 'the addon is linked without -z now or -z relro');
assert(imports.includes('__stack_chk_fail'), 'the addon has no stack protector');
assert(
  imports.some((name) => /^__\w+_chk$/.test(name)),
  'the addon was compiled without _FORTIFY_SOURCE',
);

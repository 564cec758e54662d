import { resolve } from 'node:path';

/**
 * The program's main module. scripts/test-kernel builds the program and says where it is, because a
 * start takes half the processor time then; without it, tests start the sources.
 */
export const main = resolve(
  import.meta.dirname,
  '../..',
  process.env.FAIRLEAD_PROGRAM ?? 'src/main.ts',
);

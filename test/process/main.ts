import { basename, dirname, join, resolve } from 'node:path';

/**
 * The program's main module. scripts/test-kernel builds the program and says where it is, because a
 * start takes half the processor time then; without it, tests start the sources.
 */
export const main = resolve(
  import.meta.dirname,
  '../..',
  process.env.FAIRLEAD_PROGRAM ?? 'src/main.ts',
);

/** Another module that scripts/test-kernel builds like the program, by the path of its source. */
export function builtLike(source: string): string {
  if (process.env.FAIRLEAD_PROGRAM === undefined) return source;
  return join(dirname(main), basename(source).replace(/\.ts$/, '.js'));
}

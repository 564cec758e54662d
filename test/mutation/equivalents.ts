import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Why the result is the same with a mutant, by file and name. In `equivalents.txt` a line with `#`
 * says that of those after it.
 */
export const equivalents: ReadonlyMap<string, string> = new Map(read());

function* read(): Generator<[name: string, why: string]> {
  let why = '';
  const text = readFileSync(join(import.meta.dirname, 'equivalents.txt'), 'utf8');
  for (const line of text.split('\n')) {
    if (line.startsWith('# ')) why = line.slice(2);
    else if (line !== '') yield [line, why];
  }
}

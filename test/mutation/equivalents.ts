import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Why the result is the same with a mutant, by file and name, or with all of a line. In
 * `equivalents.txt` a line with `#` says that of those after it.
 */
export const equivalents: ReadonlyMap<string, string> = new Map(read());

/** `name`: with its file. */
export function whySame(name: string): string | undefined {
  return equivalents.get(name) ?? equivalents.get(name.split(' | ')[0]!);
}

function* read(): Generator<[name: string, why: string]> {
  let why = '';
  const text = readFileSync(join(import.meta.dirname, 'equivalents.txt'), 'utf8');
  for (const line of text.split('\n')) {
    if (line.startsWith('# ')) why = line.slice(2);
    else if (line !== '') yield [line, why];
  }
}

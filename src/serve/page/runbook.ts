/** The runbook, for whoever has no other access to the documents. */
import { readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { Refusal } from '../ask/refusal.ts';
import type { Html } from './html.ts';
import { markdownHtml } from './markdown.ts';

/** `scripts/build-program` puts it next to the program. */
const folder = extname(import.meta.filename) === '.ts' ? '../../../docs' : '.';

/** Throws a Refusal if the file is missing. */
export async function runbookSection(
  path = join(import.meta.dirname, folder, 'runbook.md'),
): Promise<readonly Html[]> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Refusal(404, `the runbook is not part of this installation: ${path}: ${code}`);
  }
  return markdownHtml(text);
}

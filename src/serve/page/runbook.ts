/** The runbook, for whoever has no other access to the documents. */
import { readFile } from 'node:fs/promises';
import { shippedFile } from '../../config/shipped-file.ts';
import { Refusal } from '../ask/refusal.ts';
import type { Html } from './html.ts';
import { markdownHtml } from './markdown.ts';

/** Throws a Refusal if the file is missing. */
export async function runbookSection(path = shippedFile('runbook.md')): Promise<readonly Html[]> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Refusal(404, `the runbook is not part of this installation: ${path}: ${code}`);
  }
  return markdownHtml(text);
}

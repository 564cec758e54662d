/** The runbook, for whoever has no other access to the documents. */
import { readFile } from 'node:fs/promises';
import { shippedFile } from '../../config/shipped-file.ts';
import { Refusal } from '../ask/refusal.ts';
import { Html } from './html.ts';
import { markdownHtml } from './markdown.ts';

/** Throws a Refusal if the file is missing. */
export async function runbookSection(path = shippedFile('runbook.md')): Promise<Html> {
  const blocks = markdownHtml(await textOf(path));
  return new Html(blocks.map(({ text }) => text).join(''));
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Refusal(404, `the runbook is not part of this installation: ${path}: ${code}`);
  }
}

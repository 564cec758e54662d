/** The runbook, for whoever has no other access to the documents. */
import { readFile } from 'node:fs/promises';
import { shippedFile } from '../../config/shipped-file.ts';
import { Refusal } from '../ask/refusal.ts';
import { type Html, html } from './html.ts';
import { markdownHtml } from './markdown.ts';

/** What was rendered last, of a file that never changes, until memory is collected. */
let rendered: { readonly path: string; readonly section: WeakRef<Html> } | undefined;

/** Throws a Refusal if the file is missing. */
export async function runbookSection(path = shippedFile('runbook.md')): Promise<Html> {
  const kept = rendered?.path === path ? rendered.section.deref() : undefined;
  if (kept) return kept;
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Refusal(404, `the runbook is not part of this installation: ${path}: ${code}`);
  }
  const section = html`${markdownHtml(text)}`;
  rendered = { path, section: new WeakRef(section) };
  return section;
}

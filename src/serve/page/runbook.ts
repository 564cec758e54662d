/** The runbook, for whoever has no other access to the documents. */
import { readFile } from 'node:fs/promises';
import { shippedFile } from '../../config/shipped-file.ts';
import { Refusal } from '../ask/refusal.ts';
import { type Html, html } from './html.ts';
import { markdownHtml } from './markdown.ts';

export class Runbook {
  readonly #path: string;
  /** The file never changes. Rendering it takes milliseconds: kept until memory is collected. */
  #rendered: WeakRef<Html> | undefined;

  constructor(path = shippedFile('runbook.md')) {
    this.#path = path;
  }

  /** Throws a Refusal if the file is missing. */
  async section(): Promise<Html> {
    const kept = this.#rendered?.deref();
    if (kept !== undefined) return kept;
    const section = html`${markdownHtml(await textOf(this.#path))}`;
    this.#rendered = new WeakRef(section);
    return section;
  }
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Refusal(404, `the runbook is not part of this installation: ${path}: ${code}`);
  }
}

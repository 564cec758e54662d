/** The runbook, for whoever has no other access to the documents. */
import { readFile } from 'node:fs/promises';
import { shippedFile } from '../../config/shipped-file.ts';
import { Refusal } from '../ask/refusal.ts';
import { WhileAsked } from '../ask/while-asked.ts';
import { Html } from './html.ts';
import { markdownHtml } from './markdown.ts';

export class Runbook {
  readonly #path: string;
  /** The file never changes. Rendering it takes milliseconds. */
  readonly #rendered = new WhileAsked<Html>();

  constructor(path = shippedFile('runbook.md')) {
    this.#path = path;
  }

  /** Throws a Refusal if the file is missing. */
  async section(): Promise<Html> {
    const kept = this.#rendered.value;
    if (kept !== undefined) return kept;
    const blocks = markdownHtml(await textOf(this.#path));
    const section = new Html(blocks.map(({ text }) => text).join(''));
    this.#rendered.value = section;
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

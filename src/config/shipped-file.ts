/** Files that are shipped with the program, which `scripts/build-program` puts next to it. */
import { extname, join } from 'node:path';

/** Where they are in the repository. */
const folders = { 'runbook.md': 'docs', 'kubectl-fairlead': 'deploy' } as const;

/** The path of the file, which an incomplete installation may lack. */
export function shippedFile(name: keyof typeof folders): string {
  const isSource = extname(import.meta.filename) === '.ts';
  return join(import.meta.dirname, ...(isSource ? ['..', '..', folders[name]] : []), name);
}

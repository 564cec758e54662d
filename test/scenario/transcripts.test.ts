import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { play } from './transcript.ts';

const directory = new URL('transcripts/', import.meta.url);

/** `vitest -u` writes what really happens into the files: read the difference before you commit. */
it.for(readdirSync(directory))('transcript %s', async (name) => {
  const { pathname } = new URL(name, directory);
  await expect(await play(readFileSync(pathname, 'utf8'))).toMatchFileSnapshot(pathname);
});

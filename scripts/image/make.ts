/** Makes the image of a platform. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { makeParts } from './addon.ts';
import { writeArchive } from './archive.ts';
import { collectFiles } from './files.ts';
import type { Platform } from './platforms.ts';
import { run } from './run.ts';
import { image } from './settings.ts';

/** The repository. */
export const root: string = resolve(import.meta.dirname, '../..');

/** That of package.json. */
export const version: string = (
  JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
).version;

/** Makes the OCI archive in a folder, by default build/image, and returns its path. */
export function makeImage(platform: Platform, folder = join(root, 'build/image')): string {
  const work = mkdtempSync(join(tmpdir(), 'fairlead-image-'));
  try {
    const parts = makeParts(root, platform, work);
    const epoch = sourceDateEpoch();
    const layers = collectFiles({ root, ...parts, platform, version, epoch, work });
    mkdirSync(folder, { recursive: true });
    const archive = join(folder, archiveName(platform));
    writeArchive({ ...image(version), layers, platform, epoch, archive, work: join(work, 'oci') });
    return archive;
  } finally {
    rmSync(work, { recursive: true });
  }
}

export function archiveName(platform: Platform): string {
  return `fairlead-${version}-linux-${platform}.tar`;
}

/** The time of the image, in seconds since 1970. */
export function sourceDateEpoch(): number {
  const text = process.env.SOURCE_DATE_EPOCH ?? lastCommit();
  if (!/^\d+$/.test(text)) {
    throw new Error(`SOURCE_DATE_EPOCH must be seconds since 1970, not ${JSON.stringify(text)}`);
  }
  return Number(text);
}

function lastCommit(): string {
  try {
    return run('git', ['log', '-1', '--format=%ct'], { cwd: root }).trim();
  } catch (error) {
    throw new Error(`set SOURCE_DATE_EPOCH, since git does not know a time: ${error}`);
  }
}

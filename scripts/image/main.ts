/**
 * `npm run image [-- amd64 | arm64]...`: makes an OCI archive for each platform, by default for
 * this machine's. The files come from packages of Debian and npm, and no container registry is
 * used. The same sources and packages give the same bytes. Times are SOURCE_DATE_EPOCH, or that of
 * the last commit.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { makeParts } from './addon.ts';
import { writeArchive } from './archive.ts';
import { collectFiles } from './files.ts';
import { isPlatform, ownPlatform, type Platform } from './platforms.ts';
import { run } from './run.ts';
import { image } from './settings.ts';

const root = resolve(import.meta.dirname, '../..');
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  version: string;
};

function make(platform: Platform): void {
  const work = mkdtempSync(join(tmpdir(), 'fairlead-image-'));
  try {
    const parts = makeParts(root, platform, work);
    const epoch = sourceDateEpoch();
    const layers = collectFiles({ root, ...parts, platform, version, epoch, work });
    const folder = join(root, 'build/image');
    mkdirSync(folder, { recursive: true });
    const archive = join(folder, `fairlead-${version}-linux-${platform}.tar`);
    writeArchive({ ...image(version), layers, platform, epoch, archive, work: join(work, 'oci') });
    console.log(`${archive}: ${(statSync(archive).size / 1e6).toFixed(1)} MB`);
  } finally {
    rmSync(work, { recursive: true });
  }
}

/** The time of the image, in seconds since 1970. */
function sourceDateEpoch(): number {
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

function main(words: readonly string[]): number {
  const wrong = words.find((word) => !isPlatform(word));
  if (wrong !== undefined) {
    console.error(`fairlead: images are made for amd64 and arm64, not for ${wrong}`);
    return 1;
  }
  const platforms = words.length === 0 ? [ownPlatform()] : words.filter(isPlatform);
  try {
    for (const platform of platforms) make(platform);
  } catch (error) {
    console.error(`fairlead: ${error instanceof Error ? error.message : error}`);
    return 1;
  }
  return 0;
}

process.exit(main(process.argv.slice(2)));

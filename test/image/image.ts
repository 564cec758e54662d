/** Makes an image and unpacks it. */
import { execFile, execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { ownPlatform, type Platform } from '../../scripts/image/platforms.ts';

export interface Image {
  /** Of its file system. */
  readonly root: string;
  readonly entrypoint: readonly string[];
  readonly env: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
}

const project = resolve(import.meta.dirname, '../..');

/**
 * Makes an image in this folder. Resolves to the archive and its SHA-256. `TMPDIR` differs each
 * time, so paths do.
 */
export async function makeImage(
  folder: string,
): Promise<{ readonly archive: string; readonly sum: string }> {
  const TMPDIR = mkdtempSync(join(tmpdir(), 'fairlead-image-test-'));
  const env = { ...process.env, TMPDIR, SOURCE_DATE_EPOCH: '1700000000' };
  const words = ['scripts/image/main.ts', '--folder', folder];
  const { stdout } = await promisify(execFile)(process.execPath, words, { cwd: project, env });
  const archive = /^(\S+\.tar): /.exec(stdout)![1]!;
  return { archive, sum: createHash('sha256').update(readFileSync(archive)).digest('hex') };
}

/** Follows the layout from its index, as those who import it do. */
export function unpackImage(
  archive: string,
  folder: string,
  platform: Platform = ownPlatform(),
): Image {
  const layout = join(folder, 'layout');
  const root = join(folder, 'root');
  for (const path of [layout, root]) mkdirSync(path);
  execFileSync('tar', ['-C', layout, '-xf', archive]);
  const blob = (digest: string) => join(layout, 'blobs', digest.replace(':', '/'));
  const json = (path: string) => JSON.parse(readFileSync(path, 'utf8'));
  const [found] = json(join(layout, 'index.json')).manifests;
  if (found.platform.architecture !== platform) throw new Error(`${archive}: of another machine`);
  const manifest = json(blob(found.digest));
  for (const { digest } of manifest.layers) {
    execFileSync('tar', ['-C', root, '-xzf', blob(digest)]);
  }
  const { Entrypoint, Env, Labels } = json(blob(manifest.config.digest)).config;
  return { root, entrypoint: Entrypoint, env: Env, labels: Labels };
}

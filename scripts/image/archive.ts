/** Writes OCI image archives: an image layout of the image-spec in one tar file. */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Platform } from './platforms.ts';
import { run } from './run.ts';

const media = {
  index: 'application/vnd.oci.image.index.v1+json',
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  config: 'application/vnd.oci.image.config.v1+json',
  layer: 'application/vnd.oci.image.layer.v1.tar+gzip',
} as const;

export interface ImageOptions {
  /** A folder for each layer, with its files. */
  readonly layers: readonly string[];
  readonly platform: Platform;
  /** The image's name with its tag. */
  readonly reference: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly env: readonly string[];
  readonly entrypoint: readonly string[];
  /** The time of all files and of the image, in seconds since 1970. */
  readonly epoch: number;
  readonly archive: string;
  /** A folder for temporary files. It is emptied first. */
  readonly work: string;
}

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

/** Writes the archive. The same files and options give the same bytes. */
export function writeArchive(options: ImageOptions): void {
  const { archive, env, entrypoint, epoch, labels, platform, reference, work } = options;
  rmSync(work, { recursive: true, force: true });
  mkdirSync(join(work, 'blobs/sha256'), { recursive: true });
  const layers = options.layers.map((folder) => writeLayer(folder, epoch, work));
  const config = writeBlob(work, media.config, {
    created: new Date(epoch * 1000).toISOString(),
    architecture: platform,
    os: 'linux',
    config: { Env: env, Entrypoint: entrypoint, WorkingDir: '/', Labels: labels },
    rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) },
  });
  const manifest = writeBlob(work, media.manifest, {
    schemaVersion: 2,
    mediaType: media.manifest,
    config,
    layers: layers.map(({ descriptor }) => descriptor),
  });
  const annotations = {
    // containerd reads the full reference here. The standard annotation has the tag only.
    'io.containerd.image.name': reference,
    'org.opencontainers.image.ref.name': reference.slice(reference.lastIndexOf(':') + 1),
  };
  const described = { ...manifest, platform: { architecture: platform, os: 'linux' }, annotations };
  const index = { schemaVersion: 2, mediaType: media.index, manifests: [described] };
  writeFileSync(join(work, 'index.json'), JSON.stringify(index));
  writeFileSync(join(work, 'oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }));
  tar(work, archive, epoch, ['oci-layout', 'index.json', 'blobs']);
  rmSync(work, { recursive: true });
}

function writeLayer(
  folder: string,
  epoch: number,
  work: string,
): { readonly descriptor: Descriptor; readonly diffId: string } {
  const path = join(work, 'layer.tar');
  tar(folder, path, epoch, ['.']);
  const diffId = digest(readFileSync(path));
  run('gzip', ['--no-name', path]);
  const content = readFileSync(`${path}.gz`);
  const descriptor = { mediaType: media.layer, digest: digest(content), size: content.length };
  renameSync(`${path}.gz`, blobPath(work, descriptor.digest));
  return { descriptor, diffId };
}

function writeBlob(work: string, mediaType: string, value: object): Descriptor {
  const content = Buffer.from(JSON.stringify(value));
  const descriptor = { mediaType, digest: digest(content), size: content.length };
  writeFileSync(blobPath(work, descriptor.digest), content);
  return descriptor;
}

function digest(content: Uint8Array): string {
  return `sha256:${createHash('sha256').update(content).digest('hex')}`;
}

function blobPath(work: string, of: string): string {
  return join(work, 'blobs', of.replace(':', '/'));
}

/** Makes a tar file. Order, owners, modes and times do not depend on this machine. */
function tar(folder: string, archive: string, epoch: number, names: readonly string[]): void {
  const same = ['--sort=name', `--mtime=@${epoch}`, '--owner=0', '--group=0', '--numeric-owner'];
  const form = ['--format=gnu', '--mode=u+rwX,go+rX,go-w'];
  run('tar', [...same, ...form, '-C', folder, '-cf', archive, ...names]);
}

/** Image layouts of the OCI image-spec: folders with blobs, packed into one tar file. */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from './run.ts';

export const media = {
  index: 'application/vnd.oci.image.index.v1+json',
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  config: 'application/vnd.oci.image.config.v1+json',
  layer: 'application/vnd.oci.image.layer.v1.tar+gzip',
} as const;

export interface Descriptor {
  readonly mediaType: string;
  /** `sha256:` and hex digits. */
  readonly digest: string;
  /** In bytes. */
  readonly size: number;
  readonly platform?: { readonly architecture: string; readonly os: string };
  readonly annotations?: Readonly<Record<string, string>>;
}

/** A layout in a folder, which is emptied first. The same content gives the same archive. */
export class Layout {
  readonly #folder: string;

  constructor(folder: string) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(join(folder, 'blobs/sha256'), { recursive: true });
    this.#folder = folder;
  }

  add(mediaType: string, content: Uint8Array): Descriptor {
    const descriptor = { mediaType, digest: digestOf(content), size: content.length };
    writeFileSync(this.#path(descriptor.digest), content);
    return descriptor;
  }

  addJson(mediaType: string, value: object): Descriptor {
    return this.add(mediaType, Buffer.from(JSON.stringify(value)));
  }

  /** Moves a file into the layout. */
  take(mediaType: string, file: string): Descriptor {
    const content = readFileSync(file);
    const descriptor = { mediaType, digest: digestOf(content), size: content.length };
    renameSync(file, this.#path(descriptor.digest));
    return descriptor;
  }

  /** Packs the layout with this as its only entry, and removes the folder. */
  pack(entry: Descriptor, { archive, epoch }: { archive: string; epoch: number }): void {
    const index = { schemaVersion: 2, mediaType: media.index, manifests: [entry] };
    writeFileSync(join(this.#folder, 'index.json'), JSON.stringify(index));
    writeFileSync(
      join(this.#folder, 'oci-layout'),
      JSON.stringify({ imageLayoutVersion: '1.0.0' }),
    );
    tar(this.#folder, archive, epoch, ['oci-layout', 'index.json', 'blobs']);
    rmSync(this.#folder, { recursive: true });
  }

  #path(digest: string): string {
    return join(this.#folder, 'blobs', digest.replace(':', '/'));
  }
}

/** What `index.json` says of an entry with this name. containerd reads the first annotation. */
export function named(reference: string): Readonly<Record<string, string>> {
  return {
    'io.containerd.image.name': reference,
    'org.opencontainers.image.ref.name': reference.slice(reference.lastIndexOf(':') + 1),
  };
}

/** `sha256:` and the hex digits of the hash. */
export function digestOf(content: Uint8Array): string {
  return `sha256:${createHash('sha256').update(content).digest('hex')}`;
}

/** Makes a tar file. Order, owners, modes and times do not depend on this machine. */
export function tar(
  folder: string,
  archive: string,
  epoch: number,
  names: readonly string[],
): void {
  const same = ['--sort=name', `--mtime=@${epoch}`, '--owner=0', '--group=0', '--numeric-owner'];
  const form = ['--format=gnu', '--mode=u+rwX,go+rX,go-w'];
  run('tar', [...same, ...form, '-C', folder, '-cf', archive, ...names]);
}

/** Compresses `path` to `path.gz`, which is returned. */
export function gzip(path: string): string {
  run('gzip', ['--no-name', '--force', path]);
  return `${path}.gz`;
}

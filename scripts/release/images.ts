/** The images of a release: an archive for each platform, and one index of all of them. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Descriptor, gzip, Layout, media, named, tar } from '../image/layout.ts';

/** An unpacked OCI archive of one image. */
export class ImageArchive {
  readonly #folder: string;
  readonly descriptor: Descriptor;
  readonly #layers: readonly Descriptor[];

  /** Unpacks the archive into an empty folder. */
  constructor(archive: string, folder: string) {
    mkdirSync(folder, { recursive: true });
    execFileSync('tar', ['-C', folder, '-xf', archive]);
    const { manifests } = JSON.parse(readFileSync(join(folder, 'index.json'), 'utf8'));
    this.#folder = folder;
    this.descriptor = manifests[0];
    this.#layers = JSON.parse(this.#read(this.descriptor.digest).toString()).layers;
  }

  /** `amd64`, `arm64`. */
  get architecture(): string {
    return this.descriptor.platform!.architecture;
  }

  /** Adds all blobs to another layout. Returns the manifest's entry for an index. */
  copyTo(layout: Layout): Descriptor {
    for (const name of readdirSync(join(this.#folder, 'blobs/sha256'))) {
      layout.add('', this.#read(`sha256:${name}`));
    }
    const { annotations: _, ...entry } = this.descriptor;
    return entry;
  }

  /** The file system, unpacked into a folder. */
  unpack(folder: string): void {
    mkdirSync(folder, { recursive: true });
    for (const { digest } of this.#layers) {
      execFileSync('tar', ['-C', folder, '-xzf', this.#path(digest)]);
    }
  }

  #read(digest: string): Buffer {
    return readFileSync(this.#path(digest));
  }

  #path(digest: string): string {
    return join(this.#folder, 'blobs', digest.replace(':', '/'));
  }
}

export interface IndexOptions {
  /** The image's name with its tag. */
  readonly reference: string;
  readonly archive: string;
  readonly epoch: number;
  /** A folder for temporary files. */
  readonly work: string;
}

/** Writes an archive with an index of the images. Returns the digest of the index. */
export function writeIndex(images: readonly ImageArchive[], options: IndexOptions): string {
  const { reference, archive, epoch, work } = options;
  const layout = new Layout(work);
  const manifests = images.map((image) => image.copyTo(layout));
  const content = { schemaVersion: 2, mediaType: media.index, manifests };
  const index = layout.addJson(media.index, content);
  layout.pack({ ...index, annotations: named(reference) }, { archive, epoch });
  return index.digest;
}

const sbom = 'usr/share/doc/fairlead/sbom.cdx.json';

/**
 * Writes the image's file system as tar.gz, for hosts without a container runtime
 * (docs/install/systemd.md). Returns its list of components, in CycloneDX.
 */
export function writeTree(image: ImageArchive, archive: string, epoch: number): string {
  const folder = `${archive}.tree`;
  image.unpack(folder);
  const list = join(folder, sbom);
  const text = existsSync(list) ? readFileSync(list, 'utf8') : undefined;
  const uncompressed = archive.replace(/\.gz$/, '');
  tar(folder, uncompressed, epoch, ['.']);
  gzip(uncompressed);
  execFileSync('rm', ['-rf', folder]);
  if (text === undefined) throw new Error(`the image for ${image.architecture} has no ${sbom}`);
  return text;
}

/** Writes OCI image archives: an image layout of the image-spec in one tar file. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Descriptor, digestOf, gzip, Layout, media, named, tar } from './layout.ts';
import type { Platform } from './platforms.ts';

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

/** Writes the archive. The same files and options give the same bytes. */
export function writeArchive(options: ImageOptions): void {
  const { archive, env, entrypoint, epoch, labels, platform, reference, work } = options;
  const layout = new Layout(work);
  const layers = options.layers.map((folder) => writeLayer(layout, folder, epoch, work));
  const config = layout.addJson(media.config, {
    created: new Date(epoch * 1000).toISOString(),
    architecture: platform,
    os: 'linux',
    config: { Env: env, Entrypoint: entrypoint, WorkingDir: '/', Labels: labels },
    rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) },
  });
  const manifest = layout.addJson(media.manifest, {
    schemaVersion: 2,
    mediaType: media.manifest,
    config,
    layers: layers.map(({ descriptor }) => descriptor),
  });
  const described = {
    ...manifest,
    platform: { architecture: platform, os: 'linux' },
    annotations: named(reference),
  };
  layout.pack(described, { archive, epoch });
}

function writeLayer(
  layout: Layout,
  folder: string,
  epoch: number,
  work: string,
): { readonly descriptor: Descriptor; readonly diffId: string } {
  const path = join(work, 'layer.tar');
  tar(folder, path, epoch, ['.']);
  const diffId = digestOf(readFileSync(path));
  return { descriptor: layout.take(media.layer, gzip(path)), diffId };
}

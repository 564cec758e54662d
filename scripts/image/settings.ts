/** The name, labels, environment and entry point of the image. */
import type { ImageOptions } from './archive.ts';

type Settings = Pick<ImageOptions, 'reference' | 'labels' | 'env' | 'entrypoint'>;

export function image(version: string): Settings {
  return {
    // The name has no registry until the image is pushed to one.
    reference: `localhost/fairlead:${version}`,
    labels: {
      'org.opencontainers.image.title': 'Fairlead',
      'org.opencontainers.image.description': 'A drop-in replacement for kube-proxy',
      'org.opencontainers.image.licenses': 'Apache-2.0',
      'org.opencontainers.image.version': version,
    },
    env: [
      'PATH=/usr/local/bin',
      // See bin/fairlead for the reasons.
      'NODE_OPTIONS=--max-semi-space-size=4 --max-old-space-size=1024 --use-openssl-ca',
      'MALLOC_ARENA_MAX=2',
      'MALLOC_TRIM_THRESHOLD_=262144',
      'MALLOC_MMAP_THRESHOLD_=262144',
    ],
    entrypoint: ['/usr/local/bin/kube-proxy'],
  };
}

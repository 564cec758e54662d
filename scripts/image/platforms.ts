/** The platforms of images. */
export type Platform = keyof typeof platforms;

export const platforms = {
  amd64: { npm: 'x64', machine: 'x86_64', loader: 'lib64/ld-linux-x86-64.so.2' },
  arm64: { npm: 'arm64', machine: 'aarch64', loader: 'lib/ld-linux-aarch64.so.1' },
} as const satisfies Record<
  string,
  {
    /** Its name in npm and Node. */
    readonly npm: string;
    /** The first part of Debian's triplet. */
    readonly machine: string;
    /** The path of the dynamic loader in programs. */
    readonly loader: string;
  }
>;

export function isPlatform(word: string): word is Platform {
  return Object.hasOwn(platforms, word);
}

/** The platform of this machine. */
export function ownPlatform(): Platform {
  for (const [name, { npm }] of Object.entries(platforms)) {
    if (npm === process.arch && isPlatform(name)) return name;
  }
  throw new Error(`images are made for linux/amd64 and linux/arm64, not for ${process.arch}`);
}

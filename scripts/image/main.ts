/**
 * `npm run image [-- [--folder FOLDER] [amd64 | arm64]...]`: makes an OCI archive for each platform,
 * by default for this machine's, in build/image or another folder. The files come from packages of
 * Debian and npm, and no container registry is used. The same sources and packages give the same
 * bytes. Times are SOURCE_DATE_EPOCH, or that of the last commit.
 */
import { statSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { makeImage } from './make.ts';
import { isPlatform, ownPlatform } from './platforms.ts';

function main(): number {
  try {
    const { positionals, values } = parseArgs({
      allowPositionals: true,
      options: { folder: { type: 'string' } },
    });
    const wrong = positionals.find((word) => !isPlatform(word));
    if (wrong !== undefined)
      throw new Error(`images are made for amd64 and arm64, not for ${wrong}`);
    const platforms = positionals.length === 0 ? [ownPlatform()] : positionals.filter(isPlatform);
    for (const platform of platforms) {
      const archive = makeImage(platform, values.folder);
      console.log(`${archive}: ${(statSync(archive).size / 1e6).toFixed(1)} MB`);
    }
  } catch (error) {
    console.error(`fairlead: ${error instanceof Error ? error.message : error}`);
    return 1;
  }
  return 0;
}

process.exit(main());

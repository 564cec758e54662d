/**
 * `npm run image [-- amd64 | arm64]...`: makes an OCI archive for each platform, by default for
 * this machine's. The files come from packages of Debian and npm, and no container registry is
 * used. The same sources and packages give the same bytes. Times are SOURCE_DATE_EPOCH, or that of
 * the last commit.
 */
import { statSync } from 'node:fs';
import { makeImage } from './make.ts';
import { isPlatform, ownPlatform } from './platforms.ts';

function main(words: readonly string[]): number {
  const wrong = words.find((word) => !isPlatform(word));
  if (wrong !== undefined) {
    console.error(`fairlead: images are made for amd64 and arm64, not for ${wrong}`);
    return 1;
  }
  const platforms = words.length === 0 ? [ownPlatform()] : words.filter(isPlatform);
  try {
    for (const platform of platforms) {
      const archive = makeImage(platform);
      console.log(`${archive}: ${(statSync(archive).size / 1e6).toFixed(1)} MB`);
    }
  } catch (error) {
    console.error(`fairlead: ${error instanceof Error ? error.message : error}`);
    return 1;
  }
  return 0;
}

process.exit(main(process.argv.slice(2)));

/**
 * `npm run release -- [OPTION]...`: makes all files of a release in build/release/VERSION, from the
 * last commit. Nothing is published. docs/releases.md says what the files are.
 *
 *   --key FILE         private key in PEM, ECDSA P-256, for signatures
 *   --repository NAME  the image's name in your registry: chart and manifests then install it
 *   --url URL          where the project is published
 *   --builder URI      who runs the build, for the provenance
 *   --images FOLDER    takes the OCI archives in this folder, instead of making images
 *   --platform NAME    only for this platform, amd64 or arm64: for tests
 */
import { mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { archiveName, makeImage, root, sourceDateEpoch, version } from '../image/make.ts';
import { isPlatform, ownPlatform, type Platform, platforms } from '../image/platforms.ts';
import { run } from '../image/run.ts';
import { makeRelease } from './release.ts';

const git = (...args: string[]) => run('git', args, { cwd: root }).trim();

/** The commit, which must have everything that is in the working tree. */
function committed(): string {
  const changes = git('status', '--porcelain');
  if (changes !== '') throw new Error(`the working tree has changes:\n${changes}`);
  return git('rev-parse', 'HEAD');
}

function images(folder: string | undefined, only: string | undefined): string[] {
  if (only !== undefined && !isPlatform(only)) throw new Error(`there is no platform ${only}`);
  const all = only === undefined ? (Object.keys(platforms) as Platform[]) : [only];
  if (folder !== undefined) return all.map((platform) => join(folder, archiveName(platform)));
  for (const platform of all.filter((one) => one !== ownPlatform())) {
    const compiler = `${platforms[platform].machine}-linux-gnu-g++`;
    try {
      run(compiler, ['--version']);
    } catch {
      const packaged = `g++-${platforms[platform].machine.replace('_', '-')}-linux-gnu`;
      throw new Error(
        `the image for ${platform} needs ${compiler}: apt-get install -y ${packaged}`,
      );
    }
  }
  return all.map((platform) => {
    console.log(`Making the image for ${platform}`);
    return makeImage(platform);
  });
}

function main(): void {
  const { values } = parseArgs({
    options: {
      key: { type: 'string' },
      repository: { type: 'string' },
      url: { type: 'string' },
      builder: { type: 'string' },
      images: { type: 'string' },
      platform: { type: 'string' },
    },
  });
  const { key, repository, url, builder } = values;
  const commit = committed();
  const folder = join(root, 'build/release', version);
  mkdirSync(folder, { recursive: true });
  makeRelease({
    root,
    version,
    folder,
    epoch: sourceDateEpoch(),
    commit,
    images: images(values.images, values.platform),
    url,
    repository,
    builder,
    key: key === undefined ? undefined : readFileSync(key, 'utf8'),
  });
  // Making images takes minutes, and the chart is read after that.
  if (committed() !== commit) throw new Error('there was another commit during the build');
  for (const name of readdirSync(folder).sort()) {
    const kilobytes = Math.ceil(statSync(join(folder, name)).size / 1000);
    console.log(`${String(kilobytes).padStart(8)} kB  ${name}`);
  }
  if (key === undefined) console.log('Nothing is signed: give a key with --key.');
}

try {
  main();
} catch (error) {
  console.error(`fairlead: ${error instanceof Error ? error.message : error}`);
  process.exitCode = 1;
}

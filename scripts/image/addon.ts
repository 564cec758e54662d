/** Makes the addon and the npm packages for a platform, which may differ from this machine's. */
import { cpSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { ownPlatform, type Platform, platforms } from './platforms.ts';
import { run } from './run.ts';

export interface Parts {
  /** The folder that has node_modules. */
  readonly installed: string;
  readonly addon: string;
}

/** Uses the result of `npm run build`, or compiles for another platform in the empty `work`. */
export function makeParts(root: string, platform: Platform, work: string): Parts {
  const isOwn = platform === ownPlatform();
  const built = isOwn ? root : crossCompile(root, platform, work);
  const addon = join(work, 'fairlead.node');
  cpSync(join(built, 'build/Release/fairlead.node'), addon);
  // Symbols have the path of the build folder, and are not needed.
  const prefix = isOwn ? '' : toolPrefix(platform);
  run(`${prefix}strip`, ['--strip-unneeded', addon]);
  return { installed: isOwn ? root : install(root, platform, work), addon };
}

function toolPrefix(platform: Platform): string {
  return `${platforms[platform].machine}-linux-gnu-`;
}

/** Compiles in a copy of the sources, since node-gyp builds into the folder of the package. */
function crossCompile(root: string, platform: Platform, work: string): string {
  const copy = join(work, 'source');
  for (const part of ['binding.gyp', 'package.json', 'native', 'scripts/build-addon']) {
    cpSync(join(root, part), join(copy, part), { recursive: true });
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  const prefix = toolPrefix(platform);
  const tools = { CC: `${prefix}gcc`, CXX: `${prefix}g++`, AR: `${prefix}ar` };
  const env = { ...tools, FAIRLEAD_ARCH: platforms[platform].npm };
  run('sh', [join(copy, 'scripts/build-addon')], { env });
  return copy;
}

/** Installs the packages of package-lock.json. npm compares their checksums. */
function install(root: string, platform: Platform, work: string): string {
  const folder = join(work, 'installed');
  mkdirSync(folder);
  for (const file of ['package.json', 'package-lock.json']) {
    cpSync(join(root, file), join(folder, file));
  }
  const chosen = ['--omit=dev', '--os=linux', `--cpu=${platforms[platform].npm}`];
  run('npm', ['ci', ...chosen, '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: folder });
  return folder;
}

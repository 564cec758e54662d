/** The addon and npm's packages for a platform, which need not be that of this machine. */
import { cpSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { ownPlatform, type Platform, platforms } from './platforms.ts';
import { run } from './run.ts';

export interface Parts {
  /** Below it is node_modules. */
  readonly installed: string;
  readonly addon: string;
}

/** Takes what `npm run build` has made, or compiles for the other platform; below `work`, empty. */
export function makeParts(root: string, platform: Platform, work: string): Parts {
  const isOwn = platform === ownPlatform();
  const built = isOwn ? root : crossCompile(root, platform, work);
  const addon = join(work, 'fairlead.node');
  cpSync(join(built, 'build/Release/fairlead.node'), addon);
  // Symbols tell where it was compiled, and nobody needs them.
  const prefix = isOwn ? '' : toolPrefix(platform);
  run(`${prefix}strip`, ['--strip-unneeded', addon]);
  return { installed: isOwn ? root : install(root, platform, work), addon };
}

function toolPrefix(platform: Platform): string {
  return `${platforms[platform].machine}-linux-gnu-`;
}

/** In a copy of the sources, since node-gyp builds into the folder of the package. */
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

/** What package-lock.json names, compared with its checksums by npm. */
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

/** Collects the files of an image: a layer with Node and libraries, and one with the program. */
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { Debian, type DebianPackage } from './debian.ts';
import { copyLibraries } from './libraries.ts';
import { type Platform, platforms } from './platforms.ts';
import { run } from './run.ts';
import { makeSbom } from './sbom.ts';

export interface FilesOptions {
  /** The root of the repository. */
  readonly root: string;
  /** The folder whose node_modules is for this platform. */
  readonly installed: string;
  readonly addon: string;
  readonly platform: Platform;
  readonly version: string;
  readonly epoch: number;
  /** An empty folder for temporary files and the layers. */
  readonly work: string;
}

const documents = 'usr/share/doc/fairlead';
/** Packages with the libraries that Node and the addon need. Only those libraries are copied. */
const libraryPackages = ['libc6', 'libgcc-s1', 'libstdc++6', 'libatomic1'];

/** Files in /etc that libraries read. A distribution would provide them. */
const settings = {
  passwd: 'root:x:0:0:root:/:/nonexistent\nnobody:x:65534:65534:nobody:/:/nonexistent\n',
  group: 'root:x:0:\nnogroup:x:65534:\n',
  'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
} as const;

/** Returns the folders of the layers. The one that changes least is the first. */
export function collectFiles(options: FilesOptions): string[] {
  const { root, installed, work } = options;
  const [runtime, program] = [join(work, 'runtime'), join(work, 'program')];
  putProgram(options, program);
  const debian = putRuntime(options, runtime);
  const sbom = makeSbom({ ...options, debian });
  write(join(program, documents, 'sbom.cdx.json'), sbom);
  for (const paper of ['LICENSE', 'NOTICE']) copy(join(root, paper), join(program, documents));
  const { components } = JSON.parse(sbom) as { components: { name: string }[] };
  for (const { name } of components) putLicences(installed, name, join(program, documents));
  return [runtime, program];
}

function putProgram({ root, addon }: FilesOptions, folder: string): void {
  const home = join(folder, 'fairlead');
  run('sh', [join(root, 'scripts/build-program'), join(home, 'dist'), '']);
  copy(join(root, 'package.json'), home);
  copy(addon, join(home, 'build/Release'));
  const programs = join(folder, 'usr/local/bin');
  copy(join(root, 'deploy/image/kube-proxy'), programs);
  symlinkSync('kube-proxy', join(programs, 'fairlead'));
  copy(join(root, 'deploy/image/go-runner'), folder);
  mkdirSync(join(folder, 'usr/bin'));
  symlinkSync('../local/bin/kube-proxy', join(folder, 'usr/bin/kube-proxy'));
}

/** Puts Node and its libraries into `folder`. Returns the packages that it copied from. */
function putRuntime(options: FilesOptions, folder: string): DebianPackage[] {
  const { installed, addon, platform, work } = options;
  const { loader, machine, npm } = platforms[platform];
  const node = join(installed, 'node_modules', `node-linux-${npm}`, 'bin/node');
  copy(node, join(folder, 'usr/local/bin'));
  for (const [name, text] of Object.entries(settings)) write(join(folder, 'etc', name), text);

  const debian = new Debian(platform, join(work, 'debian'));
  const packages = libraryPackages.map((name) => debian.unpack(name));
  const folders = ['lib', 'usr/lib'].map((parent) => `${parent}/${machine}-linux-gnu`);
  const libraries = copyLibraries([node, addon], packages, { folders, target: folder });
  const actual = libraries.find(({ name }) => name === basename(loader));
  if (actual === undefined) throw new Error(`no library of the image needs ${loader}`);
  mkdirSync(join(folder, dirname(loader)), { recursive: true });
  symlinkSync(relative(dirname(loader), actual.path), join(folder, loader));
  const used = packages.filter((found) => libraries.some(({ from }) => from === found));
  for (const found of used) {
    copy(debian.copyright(found), join(folder, documents, 'debian', found.name));
  }
  return used;
}

/** Copies the licences of a npm package. `putRuntime` copies those of Debian's packages. */
function putLicences(installed: string, name: string, folder: string): void {
  const from = join(installed, 'node_modules', name);
  if (!existsSync(from)) return;
  for (const paper of readdirSync(from)) {
    if (!/^(un)?licen[cs]e|^notice|^copying/i.test(paper)) continue;
    copy(join(from, paper), join(folder, 'npm', name));
  }
}

function copy(file: string, folder: string): void {
  mkdirSync(folder, { recursive: true });
  copyFileSync(file, join(folder, basename(file)));
}

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

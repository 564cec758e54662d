/** Downloads and unpacks packages of Debian, without installing them. */
import { lstatSync, mkdirSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Platform } from './platforms.ts';
import { run } from './run.ts';

export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  /** Where it is unpacked. */
  readonly folder: string;
}

/**
 * Downloads packages for a platform, from the release that this machine runs, and unpacks each into
 * its own folder in `work`. The lists and packages of the machine do not change.
 */
export class Debian {
  readonly #work: string;
  readonly #apt: readonly string[];

  constructor(platform: Platform, work: string) {
    rmSync(work, { recursive: true, force: true });
    for (const path of ['lists/partial', 'cache/archives/partial']) {
      mkdirSync(join(work, path), { recursive: true });
    }
    const settings = {
      'APT::Architecture': platform,
      'APT::Architectures': platform,
      'APT::Sandbox::User': 'root',
      'Dir::State::lists': join(work, 'lists'),
      'Dir::State::status': '/dev/null',
      'Dir::Cache': join(work, 'cache'),
    };
    const options = Object.entries(settings).flatMap(([key, value]) => ['-o', `${key}=${value}`]);
    this.#work = work;
    this.#apt = ['-qq', ...options];
    run('apt-get', [...this.#apt, 'update']);
  }

  unpack(name: string): DebianPackage {
    const downloads = join(this.#work, 'downloads', name);
    const folder = join(this.#work, 'unpacked', name);
    for (const path of [downloads, folder]) mkdirSync(path, { recursive: true });
    run('apt-get', [...this.#apt, 'download', name], { cwd: downloads });
    const [file = ''] = readdirSync(downloads);
    const path = join(downloads, file);
    run('dpkg-deb', ['--extract', path, folder]);
    return { name, version: run('dpkg-deb', ['--field', path, 'Version']).trim(), folder };
  }

  /** The path of the file with a package's licences. It may be in another package. */
  copyright({ name, folder }: DebianPackage): string {
    const documents = join('usr/share/doc', name);
    const path = join(folder, documents);
    if (!lstatSync(path).isSymbolicLink()) return join(path, 'copyright');
    return this.copyright(this.unpack(basename(readlinkSync(path))));
  }
}

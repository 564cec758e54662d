/** What `npm ci` may run: nothing that packages bring. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import manifest from '../../../package.json' with { type: 'json' };
import lock from '../../../package-lock.json' with { type: 'json' };

const root = resolve(import.meta.dirname, '../../..');

/** A project that needs a package with scripts, which leave a file each. Nothing is downloaded. */
function projectWith(npmrc: boolean): { readonly ran: (script: string) => boolean } {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-install-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const ran = (script: string): string => join(folder, `ran-${script}`);
  const leave = (script: string): [string, string] => [script, `: > '${ran(script)}'`];
  const write = (path: string, value: object): void => {
    writeFileSync(join(folder, path), JSON.stringify(value));
  };
  mkdirSync(join(folder, 'hostile'));
  const scripts = Object.fromEntries(['preinstall', 'install', 'postinstall'].map(leave));
  write('hostile/package.json', { name: 'hostile', version: '1.0.0', scripts });
  const ask = Object.fromEntries([leave('asked')]);
  const dependencies = { hostile: 'file:hostile' };
  write('package.json', { name: 'project', version: '1.0.0', scripts: ask, dependencies });
  if (npmrc) copyFileSync(join(root, '.npmrc'), join(folder, '.npmrc'));
  const npm = (...args: string[]): void => {
    execFileSync('npm', [...args, '--offline', '--no-audit', '--no-fund'], {
      cwd: folder,
      stdio: 'ignore',
      env: { PATH: process.env.PATH, HOME: folder },
    });
  };
  npm('install', '--foreground-scripts');
  npm('run', 'asked');
  return { ran: (script) => existsSync(ran(script)) };
}

describe('npm in a checkout', () => {
  it('runs no script of a package that it installs, except the permitted ones', () => {
    const { ran } = projectWith(true);
    const all = ['preinstall', 'install', 'postinstall', 'asked'].filter(ran);
    expect(all).toEqual(['asked']);
  });

  it('checks the SHA-512 of each package, of other machines too, and takes it from no given host', () => {
    const packages: [string, object][] = Object.entries(lock.packages).filter(([path]) => path);
    expect(packages.length).toBeGreaterThan(200);
    const sha512 = expect.stringMatching(/^sha512-[A-Za-z0-9+/]{86}==$/);
    for (const [path, entry] of packages) {
      expect([path, entry]).toEqual([path, expect.objectContaining({ integrity: sha512 })]);
      expect([path, entry]).toEqual([
        path,
        expect.not.objectContaining({ resolved: expect.anything() }),
      ]);
    }
  });

  it('has no script with a pre or post script, which would not run', () => {
    const names = Object.keys(manifest.scripts);
    const skipped = names.filter((name) => {
      const verb = /^(?:pre|post)(.+)$/.exec(name)?.[1];
      return verb !== undefined && names.includes(verb);
    });
    expect(skipped).toEqual([]);
  });
});

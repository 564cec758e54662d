import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import manifest from '../../../package.json' with { type: 'json' };

/** A package with a launcher, whose dist/main.js prints its Node and arguments. */
let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'fairlead-launcher-'));
  for (const folder of ['bin', 'dist', 'elsewhere', 'path']) mkdirSync(join(root, folder));
  copyFileSync('bin/fairlead', join(root, 'bin/fairlead'));
  chmodSync(join(root, 'bin/fairlead'), 0o755);
  writeFileSync(
    join(root, 'dist/main.js'),
    'console.log(process.env.WHO ?? "real", ...process.argv.slice(2))',
  );
});

afterEach(() => {
  rmSync(root, { recursive: true });
});

/** A program that says its name and then acts as this Node does, or as one of another version. */
function makeNode(path: string, who: string, version?: string): string {
  const old = `[ "$1" = -e ] && exit 1; [ "$1" = --version ] && echo ${version} && exit 0`;
  const lines = ['#!/bin/sh', version === undefined ? ':' : old];
  writeFileSync(path, [...lines, `WHO=${who} exec ${process.execPath} "$@"`, ''].join('\n'));
  chmodSync(path, 0o755);
  return path;
}

function launch(command: string, environment: Record<string, string> = {}, args = ['a', 'b c']) {
  const env = { PATH: `${join(root, 'path')}:/usr/bin:/bin`, ...environment };
  const { status, stdout, stderr } = spawnSync(command, args, { env, encoding: 'utf8' });
  return { status, stdout, stderr };
}

describe('bin/fairlead', () => {
  it('uses FAIRLEAD_NODE, else the Node of the package, else the one in PATH', () => {
    const launcher = join(root, 'bin/fairlead');
    makeNode(join(root, 'path/node'), 'path');
    expect(launch(launcher).stdout).toBe('path a b c\n');
    mkdirSync(join(root, 'node_modules/.bin'), { recursive: true });
    makeNode(join(root, 'node_modules/.bin/node'), 'package');
    expect(launch(launcher).stdout).toBe('package a b c\n');
    const chosen = makeNode(join(root, 'elsewhere/mine'), 'chosen');
    expect(launch(launcher, { FAIRLEAD_NODE: chosen }).stdout).toBe('chosen a b c\n');
  });

  it('finds its package through a chain of symbolic links', () => {
    makeNode(join(root, 'path/node'), 'path');
    symlinkSync('../bin/fairlead', join(root, 'elsewhere/first'));
    symlinkSync(join(root, 'elsewhere/first'), join(root, 'second'));
    expect(launch(join(root, 'second')).stdout).toBe('path a b c\n');
  });

  it('reports the required version if Node is too old', () => {
    makeNode(join(root, 'path/node'), 'path', 'v20.1.0');
    const least = manifest.engines.node.replace('>=', '');
    expect(launch(join(root, 'bin/fairlead'))).toEqual({
      status: 1,
      stdout: '',
      stderr: `fairlead: Node ${least} or newer is needed, node is v20.1.0: set FAIRLEAD_NODE\n`,
    });
  });

  it('reports that FAIRLEAD_NODE cannot be run', () => {
    const { status, stderr } = launch(join(root, 'bin/fairlead'), { FAIRLEAD_NODE: '/nowhere' });
    expect(status).toBe(1);
    expect(stderr).toBe('fairlead: FAIRLEAD_NODE=/nowhere cannot be run\n');
  });

  it('explains how to build if it has not been built', () => {
    rmSync(join(root, 'dist'), { recursive: true });
    const { status, stderr } = launch(join(root, 'bin/fairlead'));
    expect(status).toBe(1);
    expect(stderr).toBe(`fairlead: not built: run \`npm run build\` in ${root}\n`);
  });
});

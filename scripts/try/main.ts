/**
 * `npm run try -- kind | minikube | k3s [--undo] [--dry-run]`: builds the image of this clone, loads
 * it into a cluster on this machine and installs it there; `--undo` removes what that made.
 * `--dry-run` prints the commands. The first that fails ends it.
 */
import { spawnSync } from 'node:child_process';
import { accessSync, constants, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { makeImage, root } from '../image/make.ts';
import { ownPlatform } from '../image/platforms.ts';
import { type Command, installing, manifestFor, type Target, targets, undoing } from './targets.ts';

function isProgram(name: string): boolean {
  if (name.includes('/')) return true;
  return (process.env.PATH ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

function runAll(commands: readonly Command[], isDry: boolean): void {
  for (const [program = '', ...args] of commands) {
    console.log(`$ ${[program, ...args].join(' ')}`);
    if (isDry) continue;
    const { error, status } = spawnSync(program, args, { cwd: root, stdio: 'inherit' });
    if (error !== undefined) throw error;
    if (status !== 0) throw new Error(`${program} has failed (${status})`);
  }
}

function tryIn(name: string, target: Target, isUndo: boolean, isDry: boolean): void {
  const manifest = `build/try/${name}.yaml`;
  if (!isDry) {
    const used = [...target.begin, target.load, target.kubectl, ...target.undo];
    const programs = new Set(used.map(([program = '']) => program));
    const missing = [...programs].filter((program) => !isProgram(program));
    if (missing.length > 0) throw new Error(`${name} needs ${missing.join(' and ')} on the PATH`);
    write(manifest, manifestFor(plainManifest(), target));
  }
  if (isUndo) {
    runAll(undoing(target, manifest), isDry);
    if (!isDry) rmSync(join(root, 'build/try'), { recursive: true, force: true });
    return;
  }
  const archive = isDry ? 'build/image/ARCHIVE' : relative(root, makeImage(ownPlatform()));
  const { file } = target;
  if (file !== undefined) {
    console.log(`# ${file.path}: ${file.text.trim().replaceAll('\n', '; ')}`);
    if (!isDry) write(file.path, file.text);
  }
  runAll(installing(target, archive, manifest), isDry);
  console.log(`To undo it: npm run try -- ${name} --undo`);
}

function plainManifest(): string {
  return readFileSync(join(root, 'deploy/manifests/plain.yaml'), 'utf8');
}

/** `path`: from the root of the clone. */
function write(path: string, text: string): void {
  const absolute = resolve(root, path);
  mkdirSync(dirname(absolute), { recursive: true });
  writeFileSync(absolute, text);
}

function main(): number {
  try {
    const { positionals, values } = parseArgs({
      allowPositionals: true,
      options: { undo: { type: 'boolean' }, 'dry-run': { type: 'boolean' } },
    });
    const [name = '', ...rest] = positionals;
    const target = Object.hasOwn(targets, name) ? targets[name] : undefined;
    if (target === undefined || rest.length > 0) {
      const all = Object.entries(targets).map(([one, { what }]) => `  ${one}: ${what}`);
      throw new Error(`name one of these:\n${all.join('\n')}`);
    }
    tryIn(name, target, values.undo === true, values['dry-run'] === true);
  } catch (error) {
    console.error(`fairlead: ${error instanceof Error ? error.message : error}`);
    return 1;
  }
  return 0;
}

process.exit(main());

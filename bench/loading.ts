/**
 * What does loading the program cost? The bundle that is shipped is compared with the same modules
 * as separate files with packages in node_modules, and with Node that loads nothing.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { number, ratio, summarise, table } from './lib/stats.ts';
import { asJavaScript } from './lib/strip.ts';

const root = join(import.meta.dirname, '..');
const folder = join(root, 'build', 'bench', 'loading');
const runs = 15;

export async function loading(): Promise<string> {
  rmSync(folder, { recursive: true, force: true });
  execFileSync('sh', ['scripts/build-program', join(folder, 'bundle')], { cwd: root });
  stripAll(join(folder, 'files'));
  const bundle = readdirSync(join(folder, 'bundle')).find((name) => /^proxy-.*\.js$/.test(name))!;
  const nothing = measure('');
  const bundled = measure(join(folder, 'bundle', bundle));
  const separate = measure(join(folder, 'files', 'cli', 'proxy.js'));
  const rows = Object.entries({ nothing, bundle: bundled, 'a file each': separate }).map(
    ([what, { wallMs, cpuMs }]) => [
      what,
      number(wallMs),
      number(cpuMs),
      ratio(cpuMs, separate.cpuMs),
    ],
  );
  const title = `Loading the program, median of ${runs}; ms`;
  return [title, table(['what', 'wall', 'processor', 'to a file each'], rows)].join('\n\n');
}

/** Writes every module of the program as JavaScript. */
function stripAll(to: string): void {
  const from = join(root, 'src');
  for (const name of readdirSync(from, { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.ts')) continue;
    const file = join(to, name.replace(/\.ts$/, '.js'));
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, asJavaScript(join(from, name)));
  }
}

/** Medians of a process that imports the module and ends. */
function measure(module: string): { wallMs: number; cpuMs: number } {
  const load = module === '' ? '' : `await import(${JSON.stringify(module)});`;
  const code = `${load} const { user, system } = process.cpuUsage(); console.log(user + system);`;
  const wallMs: number[] = [];
  const cpuMs: number[] = [];
  for (let run = 0; run < runs; run += 1) {
    const startedMs = performance.now();
    const argv = ['--input-type=module', '--eval', code];
    cpuMs.push(Number(execFileSync(process.execPath, argv, { cwd: root })) / 1000);
    wallMs.push(performance.now() - startedMs);
  }
  return { wallMs: summarise(wallMs).p50, cpuMs: summarise(cpuMs).p50 };
}

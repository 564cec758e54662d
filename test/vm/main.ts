/** Runs the kernel test suite, or another command, in virtual machines. See README.md. */
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { jobOf, type Options, parseArguments, UsageError, usage } from './arguments.ts';
import { CannotRun } from './cannot-run.ts';
import { type Entry, writeArchive } from './cpio.ts';
import { guestCommand, guestKubeProxy, suiteProjects } from './guest-command.ts';
import { debianKernel, type Kernel, ownKernel } from './kernels.ts';
import { type Outcome, qemu, runMachine } from './machine.ts';
import { moduleFiles } from './modules.ts';
import { guestProject, projectFiles } from './project.ts';
import { run } from './run.ts';
import { userModeKernel } from './user-mode.ts';
import {
  guestPackages,
  hostEntry,
  missingPackages,
  sharedLibraries,
  userland,
} from './userland.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const cache = join(root, '.cache/vm');

/** Exit codes in addition to those of the guest's command. */
const exitCodes = { usage: 2, cannotRun: 77, timeLimit: 124, died: 125, interrupted: 130 } as const;

async function main(words: readonly string[]): Promise<number> {
  const options = parseArguments(words);
  if (options === undefined) {
    console.log(usage);
    return 0;
  }
  checkHost(options);
  const { kernels, problems } = findKernels(options);
  const work = makeWorkFolder();
  try {
    transform(options, kernels);
    const common = commonFiles();
    const interrupt = interruption();
    const statuses = await Promise.all(
      kernels.map((kernel) => runKernel({ kernel, options, common, work, interrupt })),
    );
    for (const problem of problems) console.error(`test-vm: cannot run: ${problem}`);
    const failed = statuses.find((status) => status !== 0);
    return failed ?? (problems.length > 0 ? exitCodes.cannotRun : 0);
  } finally {
    rmSync(work, { recursive: true });
  }
}

function checkHost({ kernels }: Options): void {
  if (process.arch !== 'x64') {
    throw new CannotRun('an x86-64 host is needed: the guest runs copies of its programs');
  }
  const needsQemu = kernels.kind === 'own' || !kernels.series.every((name) => sourceOf(name));
  const lacksQemu = needsQemu && spawnSync(qemu, ['--version']).error !== undefined;
  const missing = [...(lacksQemu ? ['qemu-system-x86'] : []), ...missingPackages(guestPackages)];
  if (missing.length > 0) {
    throw new CannotRun(`packages are missing: apt-get install -y ${missing.join(' ')}`);
  }
}

/** The kernels that were found, and why others were not. */
function findKernels({ kernels: choice }: Options): { kernels: Kernel[]; problems: string[] } {
  if (choice.kind === 'own') {
    return { kernels: [ownKernel(choice.image, choice.modules)], problems: [] };
  }
  const kernels: Kernel[] = [];
  const problems: string[] = [];
  for (const series of choice.series) {
    try {
      kernels.push(kernelOf(series));
    } catch (error) {
      if (!(error instanceof CannotRun)) throw error;
      problems.push(error.message);
    }
  }
  return { kernels, problems };
}

/** The series of the sources of `6.1-uml`; undefined for a kernel for qemu. */
function sourceOf(name: string): string | undefined {
  return /^(.+)-uml$/.exec(name)?.[1];
}

function kernelOf(series: string): Kernel {
  const source = sourceOf(series);
  return source === undefined ? debianKernel(series, cache) : userModeKernel(source, cache);
}

/** A folder for this process, after removing those of processes that were killed. */
function makeWorkFolder(): string {
  mkdirSync(cache, { recursive: true });
  for (const name of readdirSync(cache)) {
    const pid = /^run-(\d+)$/.exec(name)?.[1];
    if (pid !== undefined && (pid === String(process.pid) || !existsSync(`/proc/${pid}`))) {
      rmSync(join(cache, name), { recursive: true, force: true });
    }
  }
  const work = join(cache, `run-${process.pid}`);
  mkdirSync(work);
  return work;
}

/**
 * Has Vitest transform the modules of the test files here, since it keeps them in node_modules: an
 * emulated processor takes most of a minute for it.
 */
function transform({ job }: Options, kernels: readonly Kernel[]): void {
  const jobs = kernels.map(({ name }) => jobOf(job, name));
  const filters = jobs.flatMap((each) => (each.kind === 'suite' ? each.filters : []));
  if (filters.length === 0) return;
  const words = ['list', '--no-static-parse', ...suiteProjects, ...new Set(filters)];
  const wrong = run(root, 'vitest', ...words);
  if (wrong !== undefined) console.error(`test-vm: modules are not transformed: ${wrong}`);
}

/** The files that all guests have: all except the command and the kernel's modules. */
function commonFiles(): Entry[] {
  const kubeProxy = process.env.KUBE_PROXY;
  const peer = kubeProxy === undefined ? [] : hostEntry(kubeProxy, guestKubeProxy);
  const files = [...userland(), ...projectFiles(root), ...peer];
  return [
    { kind: 'script', path: '/init', text: readFileSync(join(root, 'test/vm/guest-init'), 'utf8') },
    ...files,
    ...sharedLibraries(files),
  ];
}

/** Aborts when a signal asks the runner to end. */
function interruption(): AbortSignal {
  const controller = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => controller.abort());
  }
  return controller.signal;
}

interface Run {
  readonly kernel: Kernel;
  readonly options: Options;
  readonly common: readonly Entry[];
  /** A folder of this run of the runner. */
  readonly work: string;
  readonly interrupt: AbortSignal;
}

async function runKernel({ kernel, options, common, work, interrupt }: Run): Promise<number> {
  const machine = {
    kind: kernel.kind,
    kernel: kernel.image,
    initramfs: join(work, `${kernel.name}.cpio`),
    memoryMib: options.memoryMib,
    cpus: options.cpus,
    consoleLog: join(work, `${kernel.name}.console`),
    statusFile: join(work, `${kernel.name}.status`),
  };
  const modules = kernel.modules === undefined ? [] : moduleFiles(kernel.modules);
  const colors = process.stdout.isTTY ? 'always' : 'never';
  const text = guestCommand(jobOf(options.job, kernel.name), guestProject(root), colors);
  const command: Entry = { kind: 'script', path: '/command', text };
  writeArchive(machine.initramfs, [...common, command, ...modules]);
  // The files must exist even if the machine fails before it makes them.
  for (const file of [machine.consoleLog, machine.statusFile]) writeFileSync(file, '');
  const print = (line: string) => process.stdout.write(`${kernel.name} | ${line}\n`);
  const startedMs = Date.now();
  const outcome = await runMachine(machine, options.timeLimitMs, print, interrupt);
  const tookS = Math.round((Date.now() - startedMs) / 1000);
  console.error(`test-vm: ${kernel.name}: ${describe(outcome)} after ${tookS} s`);
  reportConsole(kernel, machine.consoleLog, outcome);
  return exitCode(outcome);
}

/** Keeps the kernel's messages, and shows the last ones if the outcome needs an explanation. */
function reportConsole(kernel: Kernel, from: string, outcome: Outcome): void {
  const path = join(cache, `${kernel.name}.console.log`);
  renameSync(from, path);
  const text = readFileSync(path, 'latin1');
  if (outcome.kind !== 'exited') {
    const lastLines = text.trimEnd().split('\n').slice(-30).join('\n');
    console.error(`test-vm: ${kernel.name}: end of ${path}:\n${lastLines}`);
  } else if (/WARNING: |BUG: |INFO: task .* blocked/.test(text)) {
    console.error(`test-vm: ${kernel.name}: the kernel warns of a fault, see ${path}`);
  }
}

function describe(outcome: Outcome): string {
  switch (outcome.kind) {
    case 'exited':
      return `exit status ${outcome.status}`;
    case 'died':
      return 'the machine ended without an exit status';
    case 'stopped':
      return `stopped (${outcome.reason})`;
  }
}

function exitCode(outcome: Outcome): number {
  switch (outcome.kind) {
    case 'exited':
      return outcome.status;
    case 'died':
      return exitCodes.died;
    case 'stopped':
      return outcome.reason === 'interrupted' ? exitCodes.interrupted : exitCodes.timeLimit;
  }
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (error instanceof UsageError) {
    console.error(`test-vm: ${error.message}\n${usage}`);
    process.exitCode = exitCodes.usage;
  } else if (error instanceof CannotRun) {
    console.error(`test-vm: cannot run: ${error.message}`);
    process.exitCode = exitCodes.cannotRun;
  } else {
    throw error;
  }
}

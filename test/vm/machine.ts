import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

/** The kind of a machine: emulated, or a kernel that is itself a program of the host. */
export type MachineKind = 'qemu' | 'user-mode';

/** One virtual machine. */
export interface Machine {
  readonly kind: MachineKind;
  /** Path of the bzImage, or of the program that user-mode Linux is. */
  readonly kernel: string;
  /** Path of the initramfs: all that the guest has. */
  readonly initramfs: string;
  readonly memoryMib: number;
  readonly cpus: number;
  /** The file for the kernel's messages. */
  readonly consoleLog: string;
  /** The file for the guest's exit status. */
  readonly statusFile: string;
}

/** How a machine ended. `died`: without an exit status, for example by a kernel panic. */
export type Outcome =
  | { readonly kind: 'exited'; readonly status: number }
  | { readonly kind: 'died' }
  | { readonly kind: 'stopped'; readonly reason: 'time limit' | 'interrupted' };

export const qemu = 'qemu-system-x86_64';

/** The words after qemu's name. */
function qemuArguments(machine: Machine): string[] {
  return [
    ...['-machine', 'q35', '-nodefaults', '-display', 'none', '-no-reboot'],
    ...['-accel', 'tcg,thread=multi,tb-size=512'],
    // Enough for Debian and Node; newer models boot slower under emulation (five-level page
    // tables, AVX). The kernel takes its first randomness from rdrand.
    ...['-cpu', 'Nehalem,+rdrand'],
    ...['-smp', String(machine.cpus), '-m', String(machine.memoryMib)],
    ...['-kernel', machine.kernel, '-initrd', machine.initramfs],
    ...['-append', kernelCommandLine],
    // ttyS0, ttyS1 and ttyS2: see guest-init.
    ...['-serial', `file:${machine.consoleLog}`],
    ...['-serial', 'stdio'],
    ...['-serial', `file:${machine.statusFile}`],
  ];
}

/**
 * A panic or oops ends the machine immediately. Warnings of the kernel are in the console log. The
 * kernel must not take late timers for broken ones on a busy machine.
 */
const kernelCommandLine =
  'rdinit=/init console=ttyS0 loglevel=5 panic=-1 oops=panic mitigations=off no_timer_check';

/** The words after the kernel's name. Its descriptors are those that `start` gives it. */
function userModeArguments(machine: Machine): string[] {
  return [
    ...[`mem=${machine.memoryMib}M`, `initrd=${machine.initramfs}`],
    // tty0 has the kernel's messages; ttyS1 and ttyS2: see guest-init. Nothing else is connected.
    ...['con=null', 'con0=null,fd:1', 'ssl=null', 'ssl1=null,fd:3', 'ssl2=null,fd:4'],
    // The directory of its own socket.
    `uml_dir=${dirname(machine.consoleLog)}`,
    ...['rdinit=/init', 'console=tty0', 'loglevel=5', 'panic=-1', 'oops=panic'],
    // Randomness comes from the host.
    'random.trust_cpu=on',
    // guest-init's: a restart would start the program again.
    'END_KEY=o',
  ];
}

/** Starts a machine. However this process ends, the machine ends with it. */
function start(machine: Machine): { child: ChildProcess; outputs: readonly Readable[] } {
  const together = ['--pdeathsig', 'KILL'];
  if (machine.kind === 'qemu') {
    const words = [...together, qemu, ...qemuArguments(machine)];
    const child = spawn('setpriv', words, { stdio: ['ignore', 'pipe', 'pipe'] });
    return { child, outputs: [child.stdout, child.stderr] };
  }
  const consoleLog = openSync(machine.consoleLog, 'a');
  const statusFile = openSync(machine.statusFile, 'a');
  const words = [...together, machine.kernel, ...userModeArguments(machine)];
  const stdio = ['ignore', consoleLog, consoleLog, 'pipe', statusFile] as const;
  const child = spawn('setpriv', words, { stdio: [...stdio] });
  closeSync(consoleLog);
  closeSync(statusFile);
  return { child, outputs: [child.stdio[3] as Readable] };
}

/**
 * Runs a machine to its end; each line of the command is passed to `print` immediately.
 * @param interrupt stops the machine
 */
export async function runMachine(
  machine: Machine,
  timeLimitMs: number,
  print: (line: string) => void,
  interrupt: AbortSignal,
): Promise<Outcome> {
  const { child, outputs } = start(machine);
  const stop = () => child.kill('SIGKILL');
  const timeLimit = AbortSignal.timeout(timeLimitMs);
  const stopSignal = AbortSignal.any([interrupt, timeLimit]);
  stopSignal.addEventListener('abort', stop);
  if (stopSignal.aborted) stop();
  await Promise.all([once(child, 'close'), ...outputs.map((output) => forEachLine(output, print))]);
  if (interrupt.aborted) return { kind: 'stopped', reason: 'interrupted' };
  if (timeLimit.aborted) return { kind: 'stopped', reason: 'time limit' };
  return parseStatus(readFileSync(machine.statusFile, 'latin1'));
}

/** The outcome that the text on the guest's third serial port means. */
export function parseStatus(text: string): Outcome {
  const status = /^(\d{1,3})\r?\n$/.exec(text)?.[1];
  return status === undefined ? { kind: 'died' } : { kind: 'exited', status: Number(status) };
}

async function forEachLine(stream: Readable, print: (line: string) => void): Promise<void> {
  for await (const line of createInterface({ input: stream, crlfDelay: Infinity })) print(line);
}

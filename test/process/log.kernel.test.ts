/**
 * A log that is not read: the proxy serves, follows and ends normally, and reports how much
 * is missing when it is read again.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import {
  type Circumstances,
  inForce,
  Place,
  type Program,
  temporaryDirectory,
  until,
} from './program.ts';

/** Preloaded: says more than what may wait for a reader, 3 MB in a second. */
function noise(): string {
  const path = join(temporaryDirectory(), 'noise.mjs');
  const words = `let said = 0;
    const timer = setInterval(() => {
      for (let i = 0; i < 500; i += 1) process.emitWarning('x'.repeat(200));
      if ((said += 500) >= 12_000) clearInterval(timer);
    }, 30);
    timer.unref();`;
  writeFileSync(path, words);
  return `NODE_OPTIONS=--import=file://${path}`;
}

/** Much longer than the second for which an end waits for a reader: the machine may be busy. */
const endsMs = 30_000;

/** The descriptor that the words of the shell open as standard error. */
const redirected = (to: string): Circumstances => ({
  within: ['env', noise(), 'sh', '-c', `exec "$@" 2>${to}`, 'sh'],
});

/** A named pipe, so that the test controls its other end, which is not read. */
class Pipe {
  readonly path = join(temporaryDirectory(), 'pipe');
  readonly #holder: ChildProcess;

  private constructor() {
    // Both ends, so that neither opening waits.
    const words = `mkfifo ${this.path} && exec <>${this.path} && echo open && exec sleep 600`;
    this.#holder = spawn('sh', ['-c', words], { stdio: ['ignore', 'pipe', 'inherit'] });
    onTestFinished(() => void this.#holder.kill('SIGKILL'));
  }

  static async make(): Promise<Pipe> {
    const pipe = new Pipe();
    await once(pipe.#holder.stdout!, 'data');
    return pipe;
  }

  /** Reads on until what matches has come. */
  async readUntil(wanted: RegExp): Promise<string> {
    const reader = spawn('cat', [this.path]);
    onTestFinished(() => void reader.kill('SIGKILL'));
    let read = '';
    for await (const part of reader.stdout) {
      read += String(part);
      if (wanted.test(read)) break;
    }
    return read;
  }

  /** Leaves no room. */
  async fill(): Promise<void> {
    const fill = ['if=/dev/zero', `of=${this.path}`, 'oflag=nonblock', 'bs=4096', 'count=100'];
    await new Promise((done) => spawn('dd', fill, { stdio: 'ignore' }).once('close', done));
  }

  /** The pipe has no reader any more. */
  break(): void {
    this.#holder.kill('SIGKILL');
  }
}

async function leftOut(place: Place): Promise<number> {
  const { body } = await place.ask('/metrics', 10249);
  return Number(/^fairlead_log_lines_left_out_total (\d+)$/m.exec(body)?.[1]);
}

/** Follows a change, answers, counts lost lines, and ends when it is stopped. */
async function goesOn(place: Place, program: Program, lines: 'lost' | 'taken'): Promise<void> {
  await place.serves('pod-a', 'pod-b');
  place.apply(['pod-b']);
  await place.serves('pod-b');
  place.apply(['pod-a']);
  await place.serves('pod-a');
  expect((await place.ask('/healthz')).status).toBe(200);
  if (lines === 'lost') await until(async () => (await leftOut(place)) > 0, 'lines are left out');
  else expect(await leftOut(place)).toBe(0);
  const startedMs = performance.now();
  program.kill('SIGTERM');
  expect(await program.exitCode).toBe(0);
  expect(performance.now() - startedMs).toBeLessThan(endsMs);
}

test('the process continues with a pipe that is not read as standard error', async () => {
  const [place, { path }] = [await Place.make(), await Pipe.make()];
  await goesOn(place, place.startUnder(redirected(path)), 'lost');
});

test('the process continues with a socket that is not read as standard error', async () => {
  const place = await Place.make();
  await goesOn(place, place.startUnder({ within: ['env', noise()], isRead: false }), 'lost');
});

test('the process continues with a full disk for its log', async () => {
  const place = await Place.make();
  await goesOn(place, place.startUnder(redirected('/dev/full')), 'lost');
});

test('the process continues with a pipe whose reader is gone as standard error', async () => {
  const [place, held] = [await Place.make(), await Pipe.make()];
  const program = place.startUnder(redirected(held.path));
  await place.serves('pod-a', 'pod-b');
  held.break();
  await goesOn(place, program, 'lost');
});

test('the process continues with standard error closed, for which Node opens /dev/null', async () => {
  const place = await Place.make();
  await goesOn(place, place.startUnder(redirected('&-')), 'taken');
});

test('a reader that continues receives the number of missing lines', async () => {
  const [place, held] = [await Place.make(), await Pipe.make()];
  const program = place.startUnder(redirected(held.path));
  await until(async () => (await leftOut(place).catch(() => 0)) > 0, 'lines are left out');
  // To its end: a pipe may be read in the middle of a line.
  const read = await held.readUntil(/"msg":"Dropped log lines.*\n/);
  const lines = read.split('\n').filter((line) => line.includes('Dropped log lines'));
  expect(JSON.parse(lines[0]!).count).toBeGreaterThan(0);
  program.kill('SIGTERM');
  expect(await program.exitCode).toBe(0);
});

test('with --logging-format=text every line is for people, on any output', async () => {
  const place = await Place.make();
  place.configure({ metricsBindAddress: '192.0.2.1:1', bindAddressHardFail: true });
  const program = place.start('--logging-format=text');
  expect(await program.exitCode).toBe(1);
  expect(program.lines).toEqual([]);
  expect(program.words).toMatch(/^\d\d:\d\d:\d\d\.\d{3} info {2}Starting version=/m);
  expect(program.words).toMatch(/\nfairlead: cannot serve on 192\.0\.2\.1:1: .*\n$/);
});

test('the reason of the end is logged, and does not wait for a reader for ever', async () => {
  const place = await Place.make();
  place.configure({ metricsBindAddress: '192.0.2.1:1', bindAddressHardFail: true });
  const told = place.start();
  expect(await told.exitCode).toBe(1);
  expect(told.lines.at(-1)).toMatchObject({
    level: 'fatal',
    err: expect.stringContaining('cannot serve on 192.0.2.1:1'),
  });
  const full = await Pipe.make();
  await full.fill();
  const startedMs = performance.now();
  const untold = place.startUnder(redirected(full.path));
  expect(await untold.exitCode).toBe(1);
  expect(performance.now() - startedMs).toBeLessThan(endsMs);
});

test('an uncaught error is a line of the log, and ends the process', async () => {
  const place = await Place.make();
  const breaker = join(temporaryDirectory(), 'break.mjs');
  writeFileSync(
    breaker,
    `process.on('SIGUSR2', () => {
      process.emitWarning('a warning');
      setTimeout(() => Promise.reject(new Error('nobody catches this')), 100);
    });`,
  );
  const program = place.startUnder({
    within: ['env', `NODE_OPTIONS=--import=file://${breaker}`],
  });
  await program.logged(inForce, 2);
  program.kill('SIGUSR2');
  expect(await program.exitCode).toBe(1);
  const warning = program.lines.find(({ msg }) => msg === 'Warning from Node.js');
  expect(warning?.err).toBe('a warning');
  const last = program.lines.at(-1);
  expect([last?.level, String(last?.err).split('\n')[0]]).toEqual([
    'fatal',
    'Error: nobody catches this',
  ]);
});

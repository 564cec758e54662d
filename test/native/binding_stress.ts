/**
 * Drives the addon as no program should: many concurrent sockets, watches and writers of lines,
 * closed while work is under way, dropped, in worker threads that are terminated. Run by
 * scripts/test-native with the addon built with a sanitizer, in a network namespace of its own:
 * `binding_stress.ts ADDON ROUNDS [SEED]`.
 */
import { strict as assert } from 'node:assert';
import { execFileSync } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import {
  type Addon,
  type LineWriter,
  loadAddon,
  type Socket,
  type Watch,
} from '../../src/kernel/addon.ts';
import { kernelOps, kernelRequests } from '../../src/kernel/ops.ts';
import { RecordWriter } from '../../src/kernel/records.ts';
import { freshSeed, Random } from '../chaos/random.ts';

const inet = 2;
const table = 'stress';
const watched = { tables: [{ family: inet, table }] };
/** Longer than anything here takes. */
const patienceMs = 120_000;

// Dropped objects must be collected while the rest continues, not at the end of the process.
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** A request of each family, and ops that fail or harm nothing in an empty namespace. */
function buffers(): Uint8Array[] {
  const request = (write: (out: RecordWriter<typeof kernelRequests>) => void): Uint8Array => {
    const out = new RecordWriter(kernelRequests);
    write(out);
    return out.finish();
  };
  const ops = new RecordWriter(kernelOps);
  ops.write('tableAdd', { family: inet, table, comment: '' });
  const gone = new RecordWriter(kernelOps);
  gone.write('tableDelete', { family: inet, table });
  const links = new RecordWriter(kernelOps);
  links.write('linkAdd', { link: 'stress0', type: 'dummy' });
  links.write('linkDelete', { link: 'stress0' });
  return [
    request((out) => out.write('generationGet', {})),
    request((out) => out.write('tablesDump', { family: inet })),
    request((out) => out.write('virtualServicesDump', { family: inet })),
    request((out) => out.write('addressesDump', { family: inet, link: '' })),
    request((out) => out.write('ipsetsDump', {})),
    request((out) => out.write('acctsDump', {})),
    request((out) => out.write('legacyTablesDump', { family: inet })),
    ops.finish(),
    gone.finish(),
    links.finish(),
    new Uint8Array(0),
    new Uint8Array(8),
  ];
}

/** A copy with a bit turned, sometimes. */
function damaged(buffer: Uint8Array, random: Random): Uint8Array {
  const copy = buffer.slice();
  if (copy.length > 0 && random.below(3) === 0) {
    copy[random.below(copy.length)]! ^= 1 << random.below(8);
  }
  return copy;
}

async function stress(orders: Orders): Promise<string> {
  const addon = loadAddon(orders.addonPath);
  const random = new Random(orders.seed);
  const known = buffers();
  const sockets: Socket[] = [];
  const watches = new Watches(addon, random);
  const lines = new Lines(addon, random, orders.directory);
  let answered = 0;
  for (let round = 0; round < orders.rounds; round += 1) {
    if (sockets.length < 4) sockets.push(new addon.Socket());
    const at = random.below(sockets.length);
    const socket = sockets[at]!;
    const pending = Array.from({ length: 1 + random.below(5) }, () =>
      socket.submit(damaged(random.pick(known), random)).catch(() => new Uint8Array(0)),
    );
    watches.step();
    lines.step();
    if (round % 64 === 63) collect();
    const fate = random.below(6);
    if (fate === 0) socket.close();
    if (fate <= 1) sockets.splice(at, 1);
    if (fate === 2) continue;
    answered += (await Promise.all(pending)).length;
  }
  for (const socket of sockets) socket.close();
  watches.close();
  await stillTells(addon);
  lines.check();
  return `${answered} answers, ${watches.told} changes told, ${lines.pushed} lines`;
}

/** Watches that come, are closed and are dropped. */
class Watches {
  told = 0;
  readonly #addon: Addon;
  readonly #random: Random;
  readonly #watches: Watch[] = [];

  constructor(addon: Addon, random: Random) {
    this.#addon = addon;
    this.#random = random;
  }

  step(): void {
    if (this.#watches.length < 3) {
      const told = (error?: Error): void => {
        if (error === undefined) this.told += 1;
      };
      this.#watches.push(new this.#addon.Watch(watched, told));
    }
    const at = this.#random.below(this.#watches.length);
    const watch = this.#watches[at]!;
    const fate = this.#random.below(8);
    if (fate === 0) watch.close();
    if (fate <= 1) this.#watches.splice(at, 1);
    if (fate === 2) watch.ignore(this.#random.below(3));
  }

  close(): void {
    for (const watch of this.#watches) watch.close();
  }
}

/** A watch that starts after all this reports a change. */
async function stillTells(addon: Addon): Promise<void> {
  const socket = new addon.Socket();
  const toggles = [false, true].map((comes) => {
    const out = new RecordWriter(kernelOps);
    if (comes) out.write('tableAdd', { family: inet, table, comment: '' });
    else out.write('tableDelete', { family: inet, table });
    return out.finish();
  });
  let told = 0;
  const watch = new addon.Watch(watched, () => {
    told += 1;
  });
  const endMs = performance.now() + patienceMs;
  // It reports once that it has started. Other programs change the table, too.
  while (told < 3) {
    assert(performance.now() < endMs, `a watch has told ${told} changes`);
    for (const toggle of toggles) await socket.submit(toggle).catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  watch.close();
  socket.close();
}

/**
 * Writers of lines: to files, to a pipe that is not read, to refusing ones; dropped at any moment.
 */
class Lines {
  pushed = 0;
  readonly #addon: Addon;
  readonly #random: Random;
  readonly #directory: string;
  readonly #writers: LineWriter[] = [];
  readonly #kept: { readonly writer: LineWriter; readonly path: string; text: string };

  constructor(addon: Addon, random: Random, directory: string) {
    this.#addon = addon;
    this.#random = random;
    this.#directory = mkdtempSync(join(directory, 'lines-'));
    const path = join(this.#directory, 'kept');
    this.#kept = { writer: this.#open(path), path, text: '' };
  }

  step(): void {
    if (this.#writers.length < 3) this.#writers.push(this.#open(this.#somewhere()));
    const at = this.#random.below(this.#writers.length);
    const writer = this.#writers[at]!;
    for (let count = this.#random.below(4); count > 0; count -= 1) {
      const line = `${this.pushed} ${'x'.repeat(this.#random.below(3000))}\n`;
      writer.push(line);
      this.#kept.writer.push(line);
      this.#kept.text += line;
      this.pushed += 1;
    }
    assert(writer.pendingBytes() >= 0);
    const fate = this.#random.below(8);
    if (fate === 0) writer.drain(this.#random.below(3));
    if (fate === 1) this.#writers.splice(at, 1);
  }

  /** Every line is in the file, once and in order. */
  check(): void {
    const { writer, path, text } = this.#kept;
    assert(writer.drain(patienceMs), `${writer.pendingBytes()} bytes are not written`);
    assert.equal(readFileSync(path, 'utf8'), text);
  }

  #somewhere(): string {
    const kind = this.#random.pick(['file', '/dev/null', '/dev/full', 'pipe']);
    return kind.startsWith('/') ? kind : join(this.#directory, '..', kind);
  }

  #open(path: string): LineWriter {
    // For reading too, so that the pipe opens; it is never read.
    const { O_RDWR, O_CREAT, O_APPEND } = constants;
    const fd = openSync(path, O_RDWR | O_CREAT | O_APPEND);
    const writer = new this.#addon.LineWriter(fd);
    closeSync(fd);
    return writer;
  }
}

interface Orders {
  readonly addonPath: string;
  /** For files, with a pipe that is not read. */
  readonly directory: string;
  readonly rounds: number;
  readonly seed: number;
}

if (!isMainThread) {
  parentPort!.postMessage('started');
  await stress(workerData as Orders);
} else {
  const addonPath = resolve(process.argv[2]!);
  const rounds = Number(process.argv[3]);
  const seed = Number(process.argv[4] ?? freshSeed());
  const random = new Random(seed);
  const directory = mkdtempSync(join(tmpdir(), 'fairlead-stress-'));
  process.once('exit', () => rmSync(directory, { recursive: true }));
  execFileSync('mkfifo', [join(directory, 'pipe')]);
  // One that may end its work, and some that are terminated in the middle of it.
  const ended = Array.from({ length: 4 }, async (_, i) => {
    const orders: Orders = { addonPath, directory, rounds, seed: seed + i + 1 };
    const worker = new Worker(new URL(import.meta.url), { workerData: orders });
    const over = new Promise((resolve) => worker.once('exit', resolve));
    worker.once('error', (error) => {
      throw error;
    });
    await new Promise((resolve) => worker.once('message', resolve));
    if (i > 0) setTimeout(() => void worker.terminate(), random.below(500));
    await over;
  });
  const words = await stress({ addonPath, directory, rounds, seed });
  await Promise.all(ended);
  console.log(`binding_stress: ${rounds} rounds, ${words}, seed ${seed}`);
}

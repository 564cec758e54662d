/**
 * Drives the addon as no program should: many sockets at once, closed while work is under way,
 * dropped, in worker threads that are terminated. Run by scripts/test-native with the addon built
 * with a sanitizer, in a network namespace of its own: `binding_stress.ts ADDON ROUNDS [SEED]`.
 */
import { resolve } from 'node:path';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { loadAddon, type Socket } from '../../src/kernel/addon.ts';
import { kernelOps, kernelRequests } from '../../src/kernel/ops.ts';
import { RecordWriter } from '../../src/kernel/records.ts';
import { freshSeed, Random } from '../chaos/random.ts';

const inet = 2;

/** A request of each family, and ops that fail or harm nothing in an empty namespace. */
function buffers(): Uint8Array[] {
  const request = (write: (out: RecordWriter<typeof kernelRequests>) => void): Uint8Array => {
    const out = new RecordWriter(kernelRequests);
    write(out);
    return out.finish();
  };
  const ops = new RecordWriter(kernelOps);
  ops.write('tableAdd', { family: inet, table: 'stress', comment: '' });
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

async function stress(addonPath: string, rounds: number, seed: number): Promise<number> {
  const { Socket: NativeSocket } = loadAddon(addonPath);
  const random = new Random(seed);
  const known = buffers();
  const sockets: Socket[] = [];
  let answered = 0;
  for (let round = 0; round < rounds; round += 1) {
    if (sockets.length < 4) sockets.push(new NativeSocket());
    const at = random.below(sockets.length);
    const socket = sockets[at]!;
    const pending = Array.from({ length: 1 + random.below(5) }, () =>
      socket.submit(damaged(random.pick(known), random)).catch(() => new Uint8Array(0)),
    );
    const fate = random.below(6);
    if (fate === 0) socket.close();
    if (fate <= 1) sockets.splice(at, 1);
    if (fate === 2) continue;
    answered += (await Promise.all(pending)).length;
  }
  for (const socket of sockets) socket.close();
  return answered;
}

interface Orders {
  readonly addonPath: string;
  readonly rounds: number;
  readonly seed: number;
}

if (!isMainThread) {
  const { addonPath, rounds, seed } = workerData as Orders;
  parentPort!.postMessage('started');
  await stress(addonPath, rounds, seed);
} else {
  const addonPath = resolve(process.argv[2]!);
  const rounds = Number(process.argv[3]);
  const seed = Number(process.argv[4] ?? freshSeed());
  const random = new Random(seed);
  // One that may end its work, and some that are terminated in the middle of it.
  const ended = Array.from({ length: 4 }, async (_, i) => {
    const orders: Orders = { addonPath, rounds, seed: seed + i + 1 };
    const worker = new Worker(new URL(import.meta.url), { workerData: orders });
    const over = new Promise((resolve) => worker.once('exit', resolve));
    worker.once('error', (error) => {
      throw error;
    });
    await new Promise((resolve) => worker.once('message', resolve));
    if (i > 0) setTimeout(() => void worker.terminate(), random.below(500));
    await over;
  });
  const answered = await stress(addonPath, rounds, seed);
  await Promise.all(ended);
  console.log(`binding_stress: ${rounds} rounds, ${answered} answers, seed ${seed}`);
}

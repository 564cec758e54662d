/** The class that the addon exports: misuse, threads, life and death. */
import { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { loadAddon, type Socket } from '../../src/kernel/addon.ts';
import { nftOps, type Reply, replies, requests } from '../../src/kernel/ops.ts';
import { RecordWriter, readRecords } from '../../src/kernel/records.ts';
import { createNamespace } from './namespace.ts';
import { batch, noBytes } from './ops.ts';

const { Socket: NativeSocket } = loadAddon();

const generationGet = new RecordWriter(requests);
generationGet.write('generationGet', {});
const generationRequest = generationGet.finish();

async function answer(socket: Socket, buffer: Uint8Array): Promise<Reply[]> {
  return [...readRecords(replies, await socket.submit(buffer))];
}

/** Calls with arguments that the types forbid. */
function construct(...args: readonly unknown[]): Socket {
  return Reflect.construct(NativeSocket, args) as Socket;
}

function submit(socket: Socket, ...args: readonly unknown[]): unknown {
  return Reflect.apply(socket.submit, socket, args);
}

test.each([
  [7, 'Socket: options must be an object'],
  [null, 'Socket: options must be an object'],
  [{ netns: 7 }, 'Socket: options.netns must be a path'],
  [{ netns: null }, 'Socket: options.netns must be a path'],
  [{ receiveBufferBytes: -1 }, 'Socket: options.receiveBufferBytes must be a number of bytes'],
  [{ receiveBufferBytes: '1' }, 'Socket: options.receiveBufferBytes must be a number of bytes'],
  [{ receiveBufferBytes: Number.NaN }, 'Socket: options.receiveBufferBytes must be a number'],
  [{ receiveBufferBytes: 2 ** 40 }, 'Socket: options.receiveBufferBytes must be a number'],
])('options %j are rejected with a TypeError', (options, words) => {
  expect(() => construct(options)).toThrow(TypeError);
  expect(() => construct(options)).toThrow(words);
});

test("an exception of an option's getter is passed on", () => {
  const options = {
    get netns(): string {
      throw new RangeError('from the getter');
    },
  };
  expect(() => construct(options)).toThrow(new RangeError('from the getter'));
});

test.each([
  ['nothing', []],
  ['a string', ['ops']],
  ['an array', [[1, 2]]],
  ['an ArrayBuffer', [new ArrayBuffer(8)]],
  ['another typed array', [new Uint32Array(2)]],
  ['a DataView', [new DataView(new ArrayBuffer(8))]],
])('submit rejects %s with a TypeError', (_, args) => {
  const socket = new NativeSocket();
  expect(() => submit(socket, ...args)).toThrow(
    new TypeError('Socket.submit: the buffer must be a Uint8Array'),
  );
  socket.close();
});

test('methods reject a receiver that is not a Socket, and the class a call without new', () => {
  const { submit: method } = NativeSocket.prototype as Socket;
  expect(() => method.call({} as Socket, noBytes)).toThrow(TypeError);
  expect(() => method.call(Object.create(NativeSocket.prototype), noBytes)).toThrow(TypeError);
  expect(() => (NativeSocket as unknown as () => void)()).toThrow(TypeError);
});

test('submit after close is rejected, and a second close has no effect', async () => {
  const socket = new NativeSocket();
  socket.close();
  socket.close();
  await expect(socket.submit(generationRequest)).rejects.toThrow(
    'Socket.submit: the socket is closed',
  );
});

test('what was submitted before close is still answered', async () => {
  const socket = new NativeSocket();
  const answers = Array.from({ length: 50 }, () => answer(socket, generationRequest));
  socket.close();
  for (const records of await Promise.all(answers)) {
    expect(records.map(({ kind }) => kind)).toEqual(['generation', 'dumped']);
  }
});

test.each([
  ['nothing', noBytes, 0, 'record.header is missing: the buffer is empty'],
  ['less than a header', Uint8Array.of(1, 2, 3), 0, 'the first record is truncated'],
  ['an unknown code', new Uint8Array(8).fill(0xff, 0, 4), 0, 'not one of the schema'],
  ['a payload beyond the end', new Uint8Array(8).fill(0xff, 4), 0, 'the first record is truncated'],
])('a buffer with %s is rejected with EINVAL', async (_, buffer, op, words) => {
  const socket = new NativeSocket();
  const [failed] = await answer(socket, buffer);
  expect(failed).toMatchObject({ kind: 'failed', op, errno: 22 });
  expect(failed).toHaveProperty('message', expect.stringContaining(words));
  socket.close();
});

test.each([
  ['a field cut off', (whole: Uint8Array) => shortened(whole, 4), 'tableDelete.table is truncated'],
  ['bytes left over', (whole: Uint8Array) => lengthened(whole), 'continues after the last field'],
])('an op with %s is rejected with EINVAL and its index', async (_, damage, words) => {
  const socket = new NativeSocket();
  const good = batch({ kind: 'tableDelete', family: 2, table: 'absent' });
  const [failed] = await answer(socket, Buffer.concat([good, damage(good)]));
  expect(failed).toMatchObject({ kind: 'failed', op: 1, errno: 22 });
  expect(failed).toHaveProperty('message', expect.stringContaining(words));
  socket.close();
});

function shortened(whole: Uint8Array, byteCount: number): Uint8Array {
  const cut = whole.slice(0, whole.length - byteCount);
  new DataView(cut.buffer).setUint32(4, cut.length - 8, true);
  return cut;
}

function lengthened(whole: Uint8Array): Uint8Array {
  const longer = Uint8Array.from([...whole, 0, 0, 0, 0]);
  new DataView(longer.buffer).setUint32(4, longer.length - 8, true);
  return longer;
}

test('a buffer with two requests is rejected with EINVAL', async () => {
  const socket = new NativeSocket();
  const [dumped] = await answer(socket, Buffer.concat([generationRequest, generationRequest]));
  const message = 'request.buffer contains more than one request';
  expect(dumped).toMatchObject({ kind: 'dumped', errno: 22, message });
  socket.close();
});

test('random bytes are always answered with a record', async () => {
  const socket = new NativeSocket();
  const codes = [...Object.values(nftOps), ...Object.values(requests)].map(({ code }) => code);
  for (let seed = 0; seed < 400; seed += 1) {
    const buffer = noise(seed, 8 + (seed % 90));
    const view = new DataView(buffer.buffer);
    view.setUint32(0, codes[seed % codes.length]!, true);
    if (seed % 3 !== 0) view.setUint32(4, buffer.length - 8, true);
    const records = await answer(socket, buffer);
    expect(records.length, `seed ${seed}`).toBeGreaterThan(0);
  }
  socket.close();
});

/** Bytes that look random and are the same for the same seed. */
function noise(seed: number, length: number): Uint8Array {
  let state = seed + 1;
  return Uint8Array.from({ length }, () => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    // Some words are small, so that they are valid lengths.
    return state % 5 === 0 ? state >>> 24 : 0;
  });
}

test('a namespace that does not exist rejects with the path', async () => {
  const socket = new NativeSocket({ netns: '/run/netns/fairlead-absent' });
  const rejection = await socket.submit(generationRequest).catch((error: unknown) => error);
  expect(rejection).toMatchObject({
    errno: 2,
    syscall: 'open /run/netns/fairlead-absent',
    message: 'open /run/netns/fairlead-absent: No such file or directory',
  });
  socket.close();
});

test('sockets in several namespaces work together in one process', async () => {
  const namespaces = [await createNamespace(), await createNamespace()];
  await namespaces[0]!.run('nft', ['add', 'table', 'ip', 'one']);
  const sockets = namespaces.map(({ path }) => new NativeSocket({ netns: path }));
  const answers = await Promise.all(sockets.map((socket) => answer(socket, generationRequest)));
  expect(answers.map(([generation]) => generation)).toEqual([
    { kind: 'generation', generation: 2 },
    { kind: 'generation', generation: 1 },
  ]);
  for (const socket of sockets) socket.close();
});

test('an idle socket does not keep a process or a worker alive', async () => {
  expect(await runWorker('new Socket().submit(request)')).toBe(0);
});

test('a worker that ends while its socket is busy does no harm', async () => {
  const { path } = await createNamespace();
  const code = `
    const socket = new Socket({ netns: ${JSON.stringify(path)} });
    for (let i = 0; i < 200; i += 1) void socket.submit(request);
    setTimeout(() => process.exit(3), 1);
    for (let i = 0; i < 200; i += 1) void socket.submit(request);
  `;
  for (let round = 0; round < 10; round += 1) expect(await runWorker(code)).toBe(3);
  expect(await runWorker('new Socket().submit(request)')).toBe(0);
});

test('terminating a worker during a submit does no harm', async () => {
  const code = `
    const socket = new Socket();
    const again = () => socket.submit(request).then(again);
    again(); again();
    parentPort.postMessage('busy');
  `;
  for (let round = 0; round < 10; round += 1) {
    const worker = startWorker(code);
    await new Promise((resolve) => worker.once('message', resolve));
    expect(await worker.terminate()).toBe(1);
  }
});

function startWorker(code: string): Worker {
  const prelude = `
    const { parentPort, workerData } = require('node:worker_threads');
    const { Socket } = require(workerData.addon);
    const request = workerData.request;
  `;
  const addon = new URL('../../build/Release/fairlead.node', import.meta.url).pathname;
  const workerData = { addon, request: generationRequest };
  return new Worker(prelude + code, { eval: true, workerData });
}

/** Exit code of a worker that runs `code`. */
function runWorker(code: string): Promise<number> {
  return new Promise((resolve, reject) => {
    startWorker(code).once('exit', resolve).once('error', reject);
  });
}

test('KERNEL_TRACE=1 prints each message, sent and received, on a line of standard error', async () => {
  const { run } = await createNamespace();
  const script = `
    import { openKernel } from './src/kernel/native-kernel.ts';
    import { nftOps } from './src/kernel/ops.ts';
    import { RecordWriter } from './src/kernel/records.ts';
    const kernel = openKernel();
    const writer = new RecordWriter(nftOps);
    writer.write('chainDelete', { family: 2, table: 'absent', chain: 'c' });
    await kernel.apply(writer.finish());
    await kernel.generation();
  `;
  const shell = 'exec "$0" --input-type=module -e "$1" 2>&1';
  const traced = ['KERNEL_TRACE=1', 'sh', '-c', shell, process.execPath, script];
  const lines = (await run('env', traced)).trimEnd().split('\n');
  expect(lines).toEqual([
    '-> type 0x10 flags 0x1 seq 1 len 20',
    '-> type 0xa05 flags 0x5 seq 2 len 40 1:"absent" 3:"c"',
    '-> type 0x11 flags 0x1 seq 3 len 20',
    expect.stringMatching(/^<- type 0x2 flags 0x300 seq 2 len \d+ error No such file or directory/),
    '-> type 0xa10 flags 0x5 seq 4 len 20',
    expect.stringMatching(/^<- type 0xa0f flags 0x0 seq 4 len \d+ 1:00000001/),
    '<- type 0x2 flags 0x100 seq 4 len 36 ok',
  ]);
  const silent = await run('sh', ['-c', shell, process.execPath, script]);
  expect(silent).toBe('');
});

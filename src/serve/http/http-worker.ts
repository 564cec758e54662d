/** The HTTP thread: see `http-server.ts`, and `http-thread.ts` for the event loop's side. */
import type { MessagePort } from 'node:worker_threads';
import { QuietCollector } from '../../host/garbage.ts';
import { HttpServer } from './http-server.ts';
import { Probes } from './probes.ts';
import { type MemoryParts, machineMs, SharedMemory } from './shared-memory.ts';
import type { FromThread, ToThread } from './wire.ts';

const { parentPort, workerData } = process.getBuiltinModule('node:worker_threads');
const port: MessagePort = parentPort!;
const memory = new SharedMemory(workerData as MemoryParts);
const send = (message: FromThread): void => port.postMessage(message);
const probes = new Probes(memory, { ask: () => send({ kind: 'refresh' }) });
const server = new HttpServer({ send, probes, memory, now: machineMs });
port.on('message', (message: ToThread) => {
  if (message.kind === 'refreshed') probes.turned();
  else server.receive(message);
});
// Frees several megabytes that the start of the thread leaves.
new QuietCollector().worked();

/** The HTTP thread: see `http-server.ts` and, for the other end, `http-thread.ts`. */
import type { MessagePort } from 'node:worker_threads';
import { HttpServer } from './http-server.ts';
import { MemoryProbes } from './probes.ts';
import { type MemoryParts, machineMs, SharedMemory } from './shared-memory.ts';
import type { ToThread } from './wire.ts';

const { parentPort, workerData } = process.getBuiltinModule('node:worker_threads');
const port: MessagePort = parentPort!;
const memory = new SharedMemory(workerData as MemoryParts);
const server = new HttpServer({
  send: (message) => port.postMessage(message),
  probes: new MemoryProbes(memory),
  memory,
  now: machineMs,
});
port.on('message', (message: ToThread) => server.receive(message));

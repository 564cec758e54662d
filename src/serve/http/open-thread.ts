/** Starts the HTTP thread. */
import { extname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { SharedMemory } from './shared-memory.ts';
import type { FromThread, ToThread, Wire, WireEvents } from './wire.ts';

/**
 * The thread needs a few megabytes: http-server.ts bounds its memory. If it exceeds this limit, it
 * ends and is started again.
 */
const resourceLimits = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 2, stackSizeMb: 1 };

export function openThread(memory: SharedMemory, { ended, received }: WireEvents): Wire {
  const script = `http-worker${extname(import.meta.filename)}`;
  // Not the options of this process, such as modules to load first.
  const worker = new Worker(join(import.meta.dirname, script), {
    workerData: memory.parts,
    resourceLimits,
    env: {},
    execArgv: [],
    trackUnmanagedFds: false,
  });
  let isClosed = false;
  const end = (error: Error): void => {
    if (isClosed) return;
    isClosed = true;
    ended(error);
  };
  worker.on('message', (message: FromThread) => {
    if (!isClosed) received(message);
  });
  worker.on('error', end);
  worker.on('exit', (code) => end(new Error(`the HTTP thread has ended with code ${code}`)));
  return {
    send: (message: ToThread) => worker.postMessage(message),
    close: () => {
      isClosed = true;
      void worker.terminate();
    },
  };
}

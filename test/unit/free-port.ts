/** Ports for servers of tests. */
import { createServer } from 'node:net';
import { threadId } from 'node:worker_threads';

/**
 * Below the ports that the kernel gives to clients (net.ipv4.ip_local_port_range), any of which may
 * be taken a moment later. Each worker has a range of its own.
 */
const [first, perWorker, workers] = [12_000, 600, 32];
const base = first + ((process.pid + threadId) % workers) * perWorker;
const used = { count: 0 };

/** A port of the loopback address that no other test will have. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = base + (used.count % perWorker);
    used.count += 1;
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

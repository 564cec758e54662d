/** Ports for servers of tests. */
import { createServer } from 'node:net';

/**
 * Below the ports that the kernel gives to clients (net.ipv4.ip_local_port_range), any of which may
 * be taken a moment later. Each process has a range of its own.
 */
const [first, perRange, ranges] = [12_000, 600, 32];
const range = takeRange();
const used = { count: 0 };

/** A port of the loopback address that no other test will have. */
export async function freePort(): Promise<number> {
  const base = first + (await range) * perRange;
  for (;;) {
    const port = base + (used.count % perRange);
    used.count += 1;
    if (await listens({ port, host: '127.0.0.1' })) return port;
  }
}

/**
 * An abstract socket holds the range for as long as this process lives. It belongs to a network
 * namespace, as ports do.
 */
async function takeRange(): Promise<number> {
  for (let index = 0; index < ranges; index += 1) {
    if (await listens({ path: `\0fairlead-test-ports-${index}` }, 'and stays')) return index;
  }
  throw new Error(`all ${ranges} ranges of ports are in use`);
}

function listens(where: { port: number; host: string } | { path: string }, stays = '') {
  return new Promise<boolean>((resolve) => {
    const server = createServer().unref();
    server.once('error', () => resolve(false));
    server.listen(where, () => {
      if (stays === '') server.close(() => resolve(true));
      else resolve(true);
    });
  });
}

/** What errors of connections say about an endpoint, by real ones on the loopback address. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { probe } from '../../../src/failure-detection/prober.ts';

const address = '127.0.0.1';
const longMs = 20_000;

async function listening(): Promise<number> {
  const server = createServer((socket) => socket.on('error', () => {}));
  onTestFinished(() => void server.close());
  await once(server.listen(0, address), 'listening');
  return (server.address() as AddressInfo).port;
}

const module = fileURLToPath(new URL('../../../src/failure-detection/prober.ts', import.meta.url));

/** A process that has as many files open as it may, and probes a server of its own. */
const program = `
import { openSync } from 'node:fs';
import { createServer } from 'node:net';
import { probe } from ${JSON.stringify(module)};
const server = createServer().listen(0, '${address}', async () => {
  const target = { family: 'IPv4', address: '${address}', port: server.address().port };
  const results = [await probe(target, ${longMs})];
  try {
    for (;;) openSync('/dev/null');
  } catch {}
  results.push(await probe(target, ${longMs}));
  process.stdout.write(JSON.stringify(results), () => process.exit());
});`;

describe('a probe', () => {
  it('succeeds where a server listens, and fails where none does', async () => {
    const target = { family: 'IPv4', address, port: await listening() } as const;
    expect(await probe(target, longMs)).toEqual({ result: 'accepted', isSent: true });
    // No server listens at that port of 127.0.0.2.
    const refusing = { ...target, address: '127.0.0.2' };
    expect(await probe(refusing, longMs)).toEqual({ result: 'failed', isSent: true });
  });

  it('was not tried where this process has no descriptor', () => {
    const argv = ['--input-type=module', '-e', program];
    const words = ['-c', 'ulimit -n 48 && exec "$@"', 'sh', process.execPath, ...argv];
    const results: unknown = JSON.parse(execFileSync('sh', words, { encoding: 'utf8' }));
    expect(results).toMatchObject([
      { result: 'accepted' },
      { result: 'not_tried', isSent: false, code: 'EMFILE' },
    ]);
  });

  it('succeeds where the answer came in time, and the process looked late', async () => {
    const target = { family: 'IPv4', address, port: await listening() } as const;
    const probed = probe(target, 50);
    await new Promise<void>((resolve) => process.nextTick(resolve));
    const endMs = performance.now() + 200;
    while (performance.now() < endMs);
    expect(await probed).toEqual({ result: 'accepted', isSent: true });
  });
});

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { resources } from '../../../../src/state/change.ts';
import { until } from '../../until.ts';
import { change, hasty, impatient, startCluster, startSource } from './setup.ts';

const hourMs = 3_600_000;

afterEach(() => {
  vi.restoreAllMocks();
});

describe('a jump of the clock', () => {
  it.each([
    ['forward', 1],
    ['back', -1],
  ])('%s by hours changes nothing', async (_where, sign) => {
    const server = await startCluster();
    const timing = { ...hasty, idleTimeoutMs: 2000 };
    const { sink, source, converged } = startSource(server, { timing });
    await converged();
    const now = Date.now.bind(Date);
    vi.spyOn(Date, 'now').mockImplementation(() => now() + sign * 6 * hourMs);
    change(server, 1);
    await converged();
    expect(source.condition('services').silenceMs).toBeLessThan(2000);
    // Waiting continues as if nothing had happened, too.
    for (const resource of resources) server.disturb(resource, 'expired');
    change(server, 2);
    await converged();
    await until('listed again', () => server.count('services', 'streaming-list') === 2);
    await converged();
    expect(sink.syncedResources).toHaveLength(4);
  });
});

describe('a process that was stopped and continued', () => {
  it('detects what it missed, whether or not its watches are alive', async () => {
    const server = await startCluster(5);
    const main = fileURLToPath(new URL('./follower.ts', import.meta.url));
    const follower = spawn(process.execPath, [main, server.url], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    onTestFinished(async () => {
      follower.kill('SIGKILL');
      if (follower.exitCode === null && follower.signalCode === null) await once(follower, 'exit');
    });
    let last = '';
    follower.stdout.on('data', (data: Buffer) => {
      last = data.toString().trim().split('\n').at(-1) ?? '';
    });
    const address = (i: number): string => `10.77.0.${i}`;
    const move = (i: number): void => {
      server.store.edit('endpointslices', 'shop/s1-1', (json) =>
        json.replace(/"addresses":\["[\d.]+"\]/, `"addresses":["${address(i)}"]`),
      );
    };
    move(1);
    await until('follows', () => last === address(1));
    for (const [i, what] of (['none', 'drop', 'end', 'stall'] as const).entries()) {
      follower.kill('SIGSTOP');
      if (what !== 'none') server.disturb('endpointslices', what);
      move(i + 2);
      // Longer than a watch may be silent.
      await new Promise((resolve) => setTimeout(resolve, impatient.idleTimeoutMs! * 2));
      follower.kill('SIGCONT');
      await until(`follows after ${what}`, () => last === address(i + 2));
    }
  });
});

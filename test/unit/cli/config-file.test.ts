import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { ConfigFile } from '../../../src/cli/config-file.ts';
import { turnsUntil } from '../turns.ts';

it('a configuration file behind a link is read each 2 s, and reported when it has not changed for 100 ms', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
  const spy = vi.spyOn(performance, 'now').mockImplementation(() => Date.now());
  const [here, there] = [0, 1].map(() => mkdtempSync(join(tmpdir(), 'fairlead-config-')));
  const stop = new AbortController();
  const [path, real] = [join(here!, 'config.conf'), join(there!, 'real')];
  symlinkSync(real, path);
  writeFileSync(real, 'one');
  const reports: [string, number][] = [];
  const beginMs = Date.now();
  const running = new ConfigFile({ path, content: Buffer.from('one') }).watch(
    stop.signal,
    (seen) => void reports.push([String(seen), Date.now() - beginMs]),
  );
  onTestFinished(async () => {
    stop.abort();
    await vi.advanceTimersByTimeAsync(50);
    await running;
    spy.mockRestore();
    vi.useRealTimers();
    for (const one of [here!, there!]) rmSync(one, { recursive: true });
  });
  const waits = () => turnsUntil(() => vi.getTimerCount() > 0);
  await waits();
  writeFileSync(real, 'two');
  while (reports.length === 0) {
    vi.advanceTimersToNextTimer();
    await waits();
  }
  expect(reports).toEqual([['two', 2100]]);
});

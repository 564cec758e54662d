import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { loadAddon, type Watch } from '../../../src/kernel/addon.ts';
import { quiet } from '../sync/double.ts';

test('a missing build of the addon is an error that names the file and the command to run', () => {
  expect(() => loadAddon('/nowhere/fairlead.node')).toThrow(
    'the addon is not built: /nowhere/fairlead.node is missing; run `npm run build`',
  );
});

test('a build of another version is an error that names the file and the command to run', () => {
  const path = join(mkdtempSync(join(tmpdir(), 'fairlead-addon-')), 'addon.cjs');
  onTestFinished(() => rmSync(dirname(path), { recursive: true }));
  for (const schemaSum of [loadAddon().schemaSum ^ 1, undefined]) {
    writeFileSync(path, `module.exports = ${JSON.stringify({ schemaSum })}`);
    delete createRequire(import.meta.url).cache[path];
    expect(() => loadAddon(path)).toThrow(
      `the addon ${path} is of another version than this program; run \`npm run build\``,
    );
  }
  writeFileSync(path, `module.exports = ${JSON.stringify({ schemaSum: loadAddon().schemaSum })}`);
  delete createRequire(import.meta.url).cache[path];
  expect(() => loadAddon(path)).not.toThrow();
});

test('a method of the addon rejects objects of other classes', () => {
  const { LineWriter, Socket, Watch } = loadAddon();
  const socket = new Socket();
  const watch = new Watch({ tables: [] }, () => {});
  const disguised = Reflect.construct(Watch, [{ tables: [] }, () => {}], Socket) as Watch;
  try {
    const { submit } = Socket.prototype;
    for (const self of [watch, disguised, Object.create(socket), {}]) {
      expect(() => submit.call(self, new Uint8Array(8))).toThrow(TypeError);
    }
    expect(() => Watch.prototype.ignore.call(socket as never, 1)).toThrow(TypeError);
    expect(() => LineWriter.prototype.push.call(watch as never, '')).toThrow(TypeError);
  } finally {
    socket.close();
    watch.close();
    Watch.prototype.close.call(disguised);
  }
});

test('the turn meter measures a turn of the event loop without its waiting, and once', async () => {
  const meter = new (loadAddon().TurnMeter)();
  onTestFinished(() => meter.close());
  await quiet();
  meter.take();
  const blockedMs = 30;
  await stat('/');
  const untilMs = performance.now() + blockedMs;
  while (performance.now() < untilMs);
  await quiet();
  const { p50, p99, longest } = meter.take();
  expect(longest).toBeGreaterThanOrEqual(blockedMs);
  expect(p99).toBeLessThanOrEqual(longest);
  expect(p50).toBeLessThanOrEqual(p99);
  expect(meter.take()).toEqual({ p50: 0, p99: 0, longest: 0 });
});

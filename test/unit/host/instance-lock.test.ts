import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { resolve } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { holdNamespace, holdNamespaceForRemoval } from '../../../src/cli/instance.ts';
import {
  formatHolder,
  type Holder,
  type InstanceLockOptions,
  takeInstanceLock,
} from '../../../src/host/instance-lock.ts';
import { loadAddon } from '../../../src/kernel/addon.ts';
import { loggerTo } from '../../../src/serve/log.ts';

const names = { count: 0 };

/** A lock of this test's own. */
function freshName(): string {
  names.count += 1;
  return `fairlead-test-${process.pid}-${names.count}`;
}

async function take(name: string, options: Partial<InstanceLockOptions> = {}) {
  const result = await takeInstanceLock({ name, waitMs: 0, ...options });
  if (result.kind === 'ours') onTestFinished(() => result.lock.release());
  return result;
}

const lockModule = resolve(import.meta.dirname, '../../../src/host/instance-lock.ts');

/** Another process that holds the lock until it is killed. */
async function holder(name: string): Promise<ChildProcess> {
  const code = `
    const { takeInstanceLock } = await import(${JSON.stringify(lockModule)});
    const { kind } = await takeInstanceLock({ name: ${JSON.stringify(name)}, waitMs: 0 });
    process.stdout.write(kind);
    process.stdin.resume();`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code]);
  onTestFinished(() => void child.kill('SIGKILL'));
  const [said] = await once(child.stdout, 'data');
  expect(String(said)).toBe('ours');
  return child;
}

test('a second process is refused the lock, and learns who has it', async () => {
  const name = freshName();
  expect(await take(name)).toMatchObject({ kind: 'ours' });
  const second = await take(name);
  expect(second).toMatchObject({
    kind: 'taken',
    holder: { pid: process.pid, words: { pid: process.pid } },
  });
});

test('a lock with another name is independent', async () => {
  expect(await take(freshName())).toMatchObject({ kind: 'ours' });
  expect(await take(freshName())).toMatchObject({ kind: 'ours' });
});

test('a killed holder of the lock releases it, and a waiting process gets it immediately', async () => {
  const name = freshName();
  const child = await holder(name);
  const told: Holder[] = [];
  const waiting = (of: Holder): void => {
    told.push(of);
    child.kill('SIGKILL');
  };
  expect(await take(name, { waitMs: 20_000, waiting })).toMatchObject({ kind: 'ours' });
  expect(told).toMatchObject([{ pid: child.pid, words: { pid: child.pid } }]);
});

test('a stopped holder of the lock keeps it', async () => {
  const name = freshName();
  const child = await holder(name);
  child.kill('SIGSTOP');
  const second = await take(name);
  expect(second).toEqual({ kind: 'taken', holder: { pid: child.pid, words: undefined } });
});

test('a process can be aborted while it waits for the lock', async () => {
  const name = freshName();
  await take(name);
  const stop = new AbortController();
  const waiting = (): void => stop.abort();
  const second = await take(name, { waitMs: 3_600_000, waiting, signal: stop.signal });
  expect(second.kind).toBe('taken');
});

test('an unprivileged program with the lock’s name does not prevent a start', async () => {
  const name = freshName();
  await take(name);
  const findListener = () => ({ pid: 4711, uid: 65_533 });
  expect(await take(name, { findListener, waitMs: 3_600_000 })).toEqual({
    kind: 'unknown',
    reason: 'the name of the lock is taken by process 4711 of user 65533, which can be no Fairlead',
  });
});

test.each([
  [4711, 'process 4711'],
  [0, 'a process of another PID namespace'],
])(
  'a program of root without proof of its capability does not prevent a start (PID %i)',
  async (pid, who) => {
    const name = freshName();
    await take(name);
    const findListener = () => ({ pid, uid: 0, administersNet: false });
    expect(await take(name, { findListener, waitMs: 3_600_000 })).toEqual({
      kind: 'unknown',
      reason:
        `the name of the lock is taken by ${who} of user 0, ` +
        'which does not prove that it has CAP_NET_ADMIN',
    });
  },
);

test('a program of another user with proof of the capability has the lock', async () => {
  const name = freshName();
  await take(name);
  const findListener = () => ({ pid: 4711, uid: 65_533, administersNet: true });
  expect((await take(name, { findListener })).kind).toBe('taken');
});

test('a program that does not listen, or whose queue is full, does not prevent a start', async () => {
  const name = freshName();
  await take(name);
  const silent = await take(name, { findListener: () => undefined });
  expect(silent).toMatchObject({ kind: 'unknown' });
  const findListener = (): never => {
    throw new Error('connect: Resource temporarily unavailable');
  };
  expect(await take(name, { findListener })).toEqual({
    kind: 'unknown',
    reason: 'connect: Resource temporarily unavailable',
  });
});

test('the description that a lock holder sends is checked, and quoted', async () => {
  const name = freshName();
  const command = 'a\u001b[2J\n"b"';
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.end(JSON.stringify({ pid: 1, pod: '\u001b', since: '2026-01-02T03:04:05Z', command }));
  });
  server.listen({ fd: loadAddon().openListener(name) });
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const result = await take(name);
  if (result.kind !== 'taken') throw new Error(result.kind);
  expect(formatHolder(result.holder)).toBe(
    `process ${process.pid} (process 1), since 2026-01-02T03:04:05Z: "a\\u001b[2J\\n\\"b\\""`,
  );
  expect(formatHolder({ pid: 0, words: undefined })).toBe(
    'a process of another PID namespace, which does not answer',
  );
});

test('connections that stay open use only a few file descriptors of the lock holder', async () => {
  const name = freshName();
  await take(name);
  const sockets = Array.from({ length: 100 }, () =>
    connect({ path: `\0${name}`, allowHalfOpen: true }),
  );
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
  });
  const ends = sockets.map((socket) => {
    socket.on('error', () => {});
    socket.resume();
    return once(socket, 'end');
  });
  await Promise.all(ends);
});

function logOf() {
  const lines: string[] = [];
  return { log: loggerTo({ write: (line) => void lines.push(line) }, 0), lines };
}

test('a start fails after its timeout, with the lock holder and the flag in its message', async () => {
  const name = freshName();
  await take(name);
  const { log, lines } = logOf();
  const signal = new AbortController().signal;
  const start = holdNamespace(log, { name, signal, ignoreOther: false, waitMs: 300 });
  await expect(start).rejects.toThrow(
    new RegExp(`process ${process.pid}, since .*give --ignore-other-instance`),
  );
  expect(lines.filter((line) => line.includes('waiting for it'))).toHaveLength(1);
});

test('a start continues despite the lock if that is configured', async () => {
  const name = freshName();
  await take(name);
  const { log, lines } = logOf();
  const signal = new AbortController().signal;
  await holdNamespace(log, { name, signal, ignoreOther: true });
  expect(lines.filter((line) => line.includes('ignoring it'))).toHaveLength(1);
});

test('a start that is stopped while it waits for the lock is not a failure', async () => {
  const name = freshName();
  await take(name);
  const stop = new AbortController();
  // It says that it waits.
  const log = loggerTo({ write: () => void setImmediate(() => stop.abort()) }, 0);
  await holdNamespace(log, { name, signal: stop.signal, ignoreOther: false });
});

test('a removal names the process for whose end it waits', async () => {
  const name = freshName();
  await take(name);
  const printed: string[] = [];
  const removal = holdNamespaceForRemoval((line) => printed.push(line), { name, waitMs: 300 });
  await expect(removal).rejects.toThrow(`process ${process.pid}, since `);
  expect(printed).toEqual([expect.stringContaining(`to end: process ${process.pid}, since `)]);
});

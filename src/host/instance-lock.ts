/**
 * A lock that allows one Fairlead in a network namespace: two would undo each other's rules. It is
 * an abstract Unix socket. Its name belongs to the network namespace, as rules do, and the kernel
 * releases it when the process that holds it ends.
 */
import { readFileSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Listener, loadAddon } from '../kernel/addon.ts';

/** What the holder answers about itself; empty or 0 = it does not say. */
interface HolderWords {
  /** In its own PID namespace. */
  readonly pid: number;
  /** metadata.uid of its pod. */
  readonly pod: string;
  /** ISO 8601. */
  readonly since: string;
  readonly command: string;
}

export interface Holder {
  /** In our PID namespace; 0 = it is in none that we see. */
  readonly pid: number;
  /** Undefined when it does not answer: it may be stopped, or very busy. */
  readonly words: HolderWords | undefined;
}

export type LockResult =
  | { readonly kind: 'ours'; readonly lock: InstanceLock }
  | { readonly kind: 'taken'; readonly holder: Holder }
  /** It is not known whether another Fairlead runs. The process may start nevertheless. */
  | { readonly kind: 'unknown'; readonly reason: string };

interface InstanceLock {
  release(): Promise<void>;
}

export interface InstanceLockOptions {
  /** How long to wait for a holder that may be about to end. */
  readonly waitMs: number;
  readonly signal?: AbortSignal;
  /** Called once with the holder that it waits for. */
  readonly waiting?: (holder: Holder) => void;
  /** Without the byte 0 that makes it abstract. */
  readonly name?: string;
  readonly findListener?: (name: string) => Listener | undefined;
}

const lockName = 'fairlead';

/** The lock of a proxy with this name, whose rules are separate; empty = it has none. */
export function lockNameOf(proxyName: string): string {
  return proxyName === '' ? lockName : `${lockName}.${proxyName}`;
}

const pauseMs = 100;
/** How long to wait for a holder's answer. */
const answerMs = 1000;
const answerBytesMax = 4096;
/** A name that is taken and has no listener is tried so often before the lock gives up. */
const vacantMax = 10;

/** Waits for the lock. When `signal` aborts, the result is `taken`. */
export async function takeInstanceLock(options: InstanceLockOptions): Promise<LockResult> {
  const { name = lockName, signal, waiting, waitMs } = options;
  const findListener = options.findListener ?? loadAddon().findListener;
  const deadlineMs = performance.now() + waitMs;
  let isReported = false;
  for (let vacant = 0; ; ) {
    const lock = await tryToListen(name);
    if (lock instanceof Error) return { kind: 'unknown', reason: lock.message };
    if (lock !== 'taken') return { kind: 'ours', lock };
    const found = lookUp(name, findListener);
    if (found instanceof Error) return { kind: 'unknown', reason: found.message };
    if (found === undefined) {
      // It has just ended, or it is about to listen.
      vacant += 1;
      if (vacant > vacantMax) {
        return {
          kind: 'unknown',
          reason: 'a process has the name of the lock and does not listen',
        };
      }
    } else {
      const reason = foreignHolder(found);
      if (reason !== undefined) return { kind: 'unknown', reason };
      const isOver = performance.now() >= deadlineMs || signal?.aborted === true;
      if (isOver || !isReported) {
        const holder = { pid: found.pid, words: await ask(name) };
        if (isOver) return { kind: 'taken', holder };
        isReported = true;
        waiting?.(holder);
      }
    }
    await sleep(pauseMs, undefined, { signal }).catch(() => {});
  }
}

/** Who holds the network namespace. It does not take the lock. */
export async function findInstance(
  name = lockName,
): Promise<Exclude<LockResult, { kind: 'ours' }> | { readonly kind: 'none' }> {
  const found = lookUp(name, loadAddon().findListener);
  if (found instanceof Error) return { kind: 'unknown', reason: found.message };
  if (found === undefined) return { kind: 'none' };
  const reason = foreignHolder(found);
  if (reason !== undefined) return { kind: 'unknown', reason };
  return { kind: 'taken', holder: { pid: found.pid, words: await ask(name) } };
}

/** `process 4711 (process 1 of pod 0f3…), since 2026-01-01T00:00:00.000Z: "dist/main.js"`. */
export function formatHolder({ pid, words }: Holder): string {
  const who = pid === 0 ? 'a process of another PID namespace' : `process ${pid}`;
  if (words === undefined) return `${who}, which does not answer`;
  const pod = words.pod === '' ? '' : ` of pod ${words.pod}`;
  const inside = words.pid === pid && pod === '' ? '' : ` (process ${words.pid}${pod})`;
  return `${who}${inside}, since ${words.since}: ${JSON.stringify(words.command)}`;
}

/**
 * Why the holder cannot be a Fairlead; undefined = it may be one. Any program of the network
 * namespace can take the name, and must not keep us from starting. Only one with CAP_NET_ADMIN can
 * prove that it has it, as each Fairlead does that can change something.
 */
function foreignHolder(listener: Listener): string | undefined {
  if (mayAdminister(listener)) return undefined;
  const { administersNet, pid, uid } = listener;
  const who = pid === 0 ? 'a process of another PID namespace' : `process ${pid}`;
  const taken = `the name of the lock is taken by ${who} of user ${uid}`;
  return administersNet === false
    ? `${taken}, which does not prove that it has CAP_NET_ADMIN`
    : `${taken}, which can be no Fairlead`;
}

/** Whether a process that made its socket by `openListener` has CAP_NET_ADMIN, or may have it. */
export function mayAdminister({ administersNet, uid }: Listener): boolean {
  // Absent: this process can change nothing either, or the kernel does not show sockets.
  return administersNet ?? (uid === 0 || uid === process.geteuid?.());
}

function lookUp(name: string, findListener: NonNullable<InstanceLockOptions['findListener']>) {
  try {
    return findListener(name);
  } catch (error) {
    return error as Error;
  }
}

async function tryToListen(name: string): Promise<InstanceLock | 'taken' | Error> {
  let fd: number;
  try {
    fd = loadAddon().openListener(name);
  } catch (error) {
    const { errno } = error as NodeJS.ErrnoException;
    return errno === constants.errno.EADDRINUSE ? 'taken' : (error as Error);
  }
  const about = JSON.stringify(ownWords());
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.end(about);
  });
  // An answer has a few bytes; more simultaneous clients than these are refused.
  server.maxConnections = 8;
  server.unref();
  return new Promise((resolve) => {
    // Later errors are of connections that could not be accepted, for lack of descriptors.
    server.on('error', resolve);
    server.listen({ fd }, () => resolve({ release: () => closed(server) }));
  });
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}

function ownWords(): HolderWords {
  return {
    pid: process.pid,
    pod: podUid(),
    since: new Date(Date.now() - process.uptime() * 1000).toISOString(),
    command: process.argv.slice(1).join(' ').slice(0, 1000),
  };
}

/** The pod's UID, from what the kubelet mounts as /etc/hosts; empty outside of pods. */
function podUid(): string {
  try {
    return (
      /\/pods\/([0-9a-f-]{36})\//.exec(readFileSync('/proc/self/mountinfo', 'utf8'))?.[1] ?? ''
    );
  } catch {
    return '';
  }
}

function ask(name: string): Promise<HolderWords | undefined> {
  return new Promise((resolve) => {
    let text = '';
    const socket = connect({ path: `\0${name}` });
    const done = (): void => {
      socket.destroy();
      resolve(parseWords(text));
    };
    socket.setTimeout(answerMs, done);
    socket.on('data', (part) => {
      text += part.toString('utf8');
      if (text.length > answerBytesMax) done();
    });
    socket.once('error', done);
    socket.once('end', done);
  });
}

/** Parses an answer, which may be anything. */
function parseWords(text: string): HolderWords | undefined {
  try {
    const said = JSON.parse(text) as Record<string, unknown>;
    const { pid, command } = said;
    return {
      pid: typeof pid === 'number' ? pid : 0,
      pod: /^[0-9a-f-]{36}$/.exec(String(said.pod))?.[0] ?? '',
      since: /^[0-9T:.Z-]{20,24}$/.exec(String(said.since))?.[0] ?? 'some time',
      command: typeof command === 'string' ? command : '',
    };
  } catch {
    return undefined;
  }
}

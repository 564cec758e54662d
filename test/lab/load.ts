/** Connections as many as the machine gives, and who answered each (`native/load.cc`). IPv4 only. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getSystemErrorName } from 'node:util';
import type { Actor } from './actor.ts';
import { buildLoad } from './native/build.ts';

/** A connection: when `connect` was called (CLOCK_MONOTONIC), and the address that answered. */
export interface Made {
  readonly startedMs: number;
  /** Undefined: it failed. */
  readonly by: string | undefined;
  /** Why it failed: a name of errno, or `closed` for an end without an answer. */
  readonly failure: string | undefined;
}

interface LoadLimits {
  readonly seconds: number;
  readonly clients: number;
  readonly count?: number;
}

export interface LoadResult {
  readonly made: readonly Made[];
  readonly perSecond: number;
}

/** A server at all addresses of an actor. It ends with `kill`. */
export async function serveLoad(actor: Actor, port: number): Promise<ChildProcess> {
  const argv = ['-t', String(actor.pid), '-n', buildLoad(), 'serve', String(port)];
  const server = spawn('nsenter', argv, { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(server.stdout!, 'data');
  return server;
}

/**
 * Connects from this actor, with a number of concurrent clients, for a number of seconds, or until
 * about `count` are answered.
 */
export async function load(
  actor: Actor,
  to: { readonly address: string; readonly port: number },
  { seconds, clients, count }: LoadLimits,
): Promise<LoadResult> {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-load-'));
  const file = join(folder, 'made');
  try {
    const { address, port } = to;
    const settings = [address, port, seconds, clients].map(String);
    const most = count === undefined ? [] : [String(count)];
    const said = await actor.run([buildLoad(), 'connect', ...settings, file, ...most]);
    const { perSecond } = JSON.parse(said) as { perSecond: number };
    return { made: read(readFileSync(file)), perSecond };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Load that continues until `end`, which resolves when its last connection is complete. */
export interface Loading {
  end(): Promise<LoadResult>;
}

/** Longer than any test. */
const longestSeconds = 3600;

/** The same until it is ended, by a process that is in this cgroup from its beginning. */
export function startLoad(
  actor: Actor,
  to: { readonly address: string; readonly port: number },
  { cgroup, clients }: { readonly cgroup: string; readonly clients: number },
): Loading {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-load-'));
  const file = join(folder, 'made');
  const script = 'echo $$ >"$1/cgroup.procs" && shift && exec nsenter "$@"';
  const settings = [to.address, to.port, longestSeconds, clients].map(String);
  const words = ['-t', String(actor.pid), '-n', buildLoad(), 'connect', ...settings, file];
  const argv = ['-c', script, 'sh', cgroup, ...words];
  const child = spawn('sh', argv, { stdio: ['ignore', 'pipe', 'inherit'] });
  let said = '';
  child.stdout.on('data', (data) => {
    said += String(data);
  });
  const closed = once(child, 'close');
  return {
    end: async () => {
      child.kill('SIGTERM');
      try {
        await closed;
        const { perSecond } = JSON.parse(said) as { perSecond: number };
        return { made: read(readFileSync(file)), perSecond };
      } finally {
        rmSync(folder, { recursive: true });
      }
    },
  };
}

const madeBytes = 16;

function read(bytes: Buffer): Made[] {
  return Array.from({ length: bytes.length / madeBytes }, (_, i) => {
    const at = i * madeBytes;
    const startedMs = Number(bytes.readBigUInt64LE(at)) / 1e6;
    const by = bytes.subarray(at + 8, at + 12);
    if (by.some((byte) => byte !== 0)) return { startedMs, by: by.join('.'), failure: undefined };
    const errno = bytes.readInt32LE(at + 12);
    const failure = errno === 0 ? 'closed' : getSystemErrorName(-errno);
    return { startedMs, by: undefined, failure };
  });
}

/** The clock of `Made`. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

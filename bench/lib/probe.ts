/**
 * Is preloaded into the product (`node --import`), which has no code for it. It records when bytes
 * come from a TLS socket and what the sync loop reports, and sends that on request.
 */

import { readFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { TLSSocket } from 'node:tls';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { AgentEvent } from '../../src/connect-time/maps/events.ts';
import type { FamilyEvent } from '../../src/sync/events.ts';
import { LongestTurn } from './longest-turn.ts';
import { type Summary, summarise } from './stats.ts';

/** Milliseconds, unless the name says otherwise. Since the start, or the last `reset`. */
export interface ProbeReport {
  /** The time from the socket to the kernel's acknowledgement, for each batch's oldest change. */
  readonly socketToAck: Summary;
  /** Its parts: until the change is in the state, is resolved, is encoded, is acknowledged. */
  readonly stages: Readonly<Record<'receive' | 'resolve' | 'encode' | 'commit', Summary>>;
  /** The time from the API server's time stamp of each change to the acknowledgement. */
  readonly triggerToAck: Summary;
  /**
   * Its parts, where the probe was asked to split it: until its bytes are here; from there to the
   * acknowledgement, the time for which the main thread waited for a processor; and the rest.
   */
  readonly server: Summary;
  readonly waited: Summary;
  readonly own: Summary;
  /** The time from the last event's bytes to the last acknowledgement. */
  readonly lastEventToAck: number;
  readonly batches: number;
  readonly forwardings: number;
  readonly writes: number;
  /** Processor time of all threads. */
  readonly cpuMs: number;
  readonly mainThreadCpuMs: number;
  /** The delay of timers, by work and by other processes. */
  readonly eventLoop: Summary;
  /** The longest turn of the event loop, in processor time of the main thread. */
  readonly longestTurn: number;
  readonly rssMB: number;
  readonly heapMB: number;
  /** Memory outside of the heap that it refers to, such as buffers. */
  readonly externalMB: number;
  readonly buffersMB: number;
}

const eventLoopResolutionMs = 1;
const delay = monitorEventLoopDelay({ resolution: eventLoopResolutionMs });
delay.enable();
const turns = new LongestTurn();
let longestTurnMs = 0;

/** Fixed size, so that measuring does not look like a leak. */
class Series {
  readonly #values: Float64Array;
  #count = 0;

  constructor(capacity: number) {
    this.#values = new Float64Array(capacity);
  }

  add(value: number): void {
    this.#values[this.#count % this.#values.length] = value;
    this.#count += 1;
  }

  /** The newest value that is not above `limit`. */
  newestUntil(limit: number): number {
    const { length } = this.#values;
    for (let i = this.#count - 1; i >= 0 && i >= this.#count - length; i -= 1) {
      const value = this.#values[i % length]!;
      if (value <= limit) return value;
    }
    return Number.NaN;
  }

  get empty(): boolean {
    return this.#count === 0;
  }

  clear(): void {
    this.#count = 0;
  }

  get summary(): Summary {
    return summarise(this.#values.subarray(0, Math.min(this.#count, this.#values.length)));
  }
}

const arrivals = new Series(1 << 14);
const total = new Series(1 << 14);
const stages = {
  receive: new Series(1 << 14),
  resolve: new Series(1 << 14),
  encode: new Series(1 << 14),
  commit: new Series(1 << 14),
};
const triggerToAck = new Series(1 << 16);
const parts = {
  server: new Series(1 << 16),
  waited: new Series(1 << 16),
  own: new Series(1 << 16),
};
let isSplit = false;
/** When changes came, and how long the main thread had waited by then, by trigger time. */
const came = new Map<number, { readonly wallMs: number; readonly waitedMs: number }>();
const triggerName = 'endpoints.kubernetes.io/last-change-trigger-time';

/** How long the main thread has waited for a processor until now. */
function waitedMs(): number {
  return Number(readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ')[1]) / 1e6;
}

function noteTriggers(chunk: Buffer): void {
  for (let at = chunk.indexOf(triggerName); at >= 0; at = chunk.indexOf(triggerName, at + 1)) {
    const text = chunk.toString('latin1', at, at + 100);
    const time = /[-0-9]{10}T[:.0-9]+Z/.exec(text)?.[0] ?? '';
    came.set(Date.parse(time), { wallMs: Date.now(), waitedMs: waitedMs() });
  }
}

function splitUp(triggerMs: number, wallMs: number): void {
  const arrived = came.get(triggerMs);
  if (arrived === undefined) return;
  const waited = waitedMs() - arrived.waitedMs;
  parts.server.add(arrived.wallMs - triggerMs);
  parts.waited.add(waited);
  parts.own.add(wallMs - arrived.wallMs - waited);
}
const sums = { batches: 0, forwardings: 0, writes: 0 };
let cpuBefore = process.cpuUsage();
let mainBefore = process.threadCpuUsage();
let lastEventMs = Number.NaN;
let lastAckMs = Number.NaN;

const { push } = TLSSocket.prototype;
TLSSocket.prototype.push = function (chunk: Buffer | null, ...rest) {
  if (chunk !== null) {
    const nowMs = performance.now();
    // The time to load the program does not count.
    if (arrivals.empty) {
      delay.reset();
      turns.take();
    }
    arrivals.add(nowMs);
    if (isSplit) noteTriggers(chunk);
    const isBookmark = chunk.length < 600 && chunk.includes('"BOOKMARK"');
    if (!isBookmark) lastEventMs = nowMs;
  }
  return push.call(this, chunk, ...rest);
};

function committed(event: FamilyEvent & { kind: 'committed' }): void {
  sums.batches += 1;
  sums.forwardings += event.forwardings;
  sums.writes += event.writes;
  if (event.stages === undefined) return;
  const { receivedMs, resolvedMs, encodedMs, committedMs } = event.stages;
  const arrivedMs = arrivals.newestUntil(receivedMs);
  lastAckMs = committedMs;
  total.add(committedMs - arrivedMs);
  stages.receive.add(receivedMs - arrivedMs);
  stages.resolve.add(resolvedMs - receivedMs);
  stages.encode.add(encodedMs - resolvedMs);
  stages.commit.add(committedMs - encodedMs);
  const wallMs = Date.now();
  for (const timeMs of event.triggerTimesMs) {
    triggerToAck.add(wallMs - timeMs);
    splitUp(timeMs, wallMs);
  }
}

const built = new URL('../../dist/metrics.js', import.meta.url).href;
const { Metrics } = (await import(built)) as typeof import('../../src/serve/metrics.ts');
const { observe } = Metrics.prototype;
Metrics.prototype.observe = function (event: AgentEvent): void {
  if (event.kind === 'committed') committed(event);
  observe.call(this, event);
};

function report(): ProbeReport {
  const { rss, heapUsed, external, arrayBuffers } = process.memoryUsage();
  longestTurnMs = Math.max(longestTurnMs, turns.take());
  const late = (quantile: number): number =>
    Math.max(0, delay.percentile(quantile) / 1e6 - eventLoopResolutionMs);
  const { user, system } = process.cpuUsage(cpuBefore);
  const main = process.threadCpuUsage(mainBefore);
  const megabytes = (bytes: number): number => bytes / (1 << 20);
  return {
    socketToAck: total.summary,
    stages: {
      receive: stages.receive.summary,
      resolve: stages.resolve.summary,
      encode: stages.encode.summary,
      commit: stages.commit.summary,
    },
    triggerToAck: triggerToAck.summary,
    server: parts.server.summary,
    waited: parts.waited.summary,
    own: parts.own.summary,
    lastEventToAck: lastAckMs - lastEventMs,
    ...sums,
    cpuMs: (user + system) / 1000,
    mainThreadCpuMs: (main.user + main.system) / 1000,
    eventLoop: { p50: late(50), p99: late(99), max: late(100) },
    longestTurn: longestTurnMs,
    rssMB: megabytes(rss),
    heapMB: megabytes(heapUsed),
    externalMB: megabytes(external),
    buffersMB: megabytes(arrayBuffers),
  };
}

function reset(): void {
  const all = [total, triggerToAck, ...Object.values(stages), ...Object.values(parts)];
  for (const series of all) series.clear();
  came.clear();
  Object.assign(sums, { batches: 0, forwardings: 0, writes: 0 });
  cpuBefore = process.cpuUsage();
  mainBefore = process.threadCpuUsage();
  delay.reset();
  turns.take();
  longestTurnMs = 0;
}

/** Collects garbage now, so that V8 gives free pages back. */
function collect(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}

process.on('message', (message) => {
  if (message === 'reset' || message === 'split') reset();
  isSplit ||= message === 'split';
  if (message === 'collect') collect();
  process.send!(report());
});
process.channel?.unref();

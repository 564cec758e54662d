/**
 * Memory that the event loop writes and the HTTP thread reads, so that neither waits for the other:
 * the input of answers to probes, the endpoints of health-check node ports, and counts of answers.
 */
import type { HealthFacts } from '../health-answer.ts';

/** What a thread receives to use the same memory. */
export interface MemoryParts {
  readonly words: SharedArrayBuffer;
  readonly facts: SharedArrayBuffer;
  readonly endpoints: SharedArrayBuffer;
}

/** Answers that are counted: by path and status. */
const countedAnswers = [
  { probe: 'healthz', status: 200 },
  { probe: 'healthz', status: 503 },
  { probe: 'livez', status: 200 },
  { probe: 'livez', status: 503 },
] as const;

type Counted = (typeof countedAnswers)[number];

/** Indexes of 32-bit words. */
const word = { version: 0, length: 1, outdated: 2, counts: 3 } as const;
const factsBytesMax = 64 * 1024;
/** One for each health-check node port of each family, and for those that wait for a port. */
export const slotsMax = 1 << 17;
/** How often to retry reading facts while they are being written. */
const attemptsMax = 1000;

/** Facts, and when they were published, by `machineMs`. */
interface Published {
  readonly facts: HealthFacts;
  readonly atMs: number;
}

/** Milliseconds by a monotonic clock that is the same for all threads. */
export function machineMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1000 + nanoseconds / 1e6;
}

export class SharedMemory {
  readonly parts: MemoryParts;
  readonly #words: Int32Array;
  readonly #facts: Uint8Array;
  readonly #endpoints: Int32Array;
  #read: { readonly version: number; readonly published: Published } | undefined;

  constructor(parts: MemoryParts = newParts()) {
    this.parts = parts;
    this.#words = new Int32Array(parts.words);
    this.#facts = new Uint8Array(parts.facts);
    this.#endpoints = new Int32Array(parts.endpoints);
  }

  /** The facts have changed: the published ones are not up to date. */
  outdate(): void {
    Atomics.store(this.#words, word.outdated, 1);
  }

  get isOutdated(): boolean {
    return Atomics.load(this.#words, word.outdated) === 1;
  }

  /** The version is odd while facts are written. */
  publish(facts: HealthFacts): void {
    const bytes = textOf({ facts, atMs: machineMs() });
    Atomics.store(this.#words, word.outdated, 0);
    Atomics.add(this.#words, word.version, 1);
    this.#facts.set(bytes);
    Atomics.store(this.#words, word.length, bytes.length);
    Atomics.add(this.#words, word.version, 1);
  }

  /** The facts that were published last. Throws before the first ones. */
  published(): Published {
    for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
      const version = Atomics.load(this.#words, word.version);
      if (this.#read?.version === version) break;
      if (version % 2 !== 0) continue;
      const bytes = Buffer.from(this.#facts.subarray(0, Atomics.load(this.#words, word.length)));
      if (Atomics.load(this.#words, word.version) !== version) continue;
      this.#read = { version, published: JSON.parse(bytes.toString('utf8')) };
      break;
    }
    if (this.#read === undefined) throw new Error('no facts about health were published');
    return this.#read.published;
  }

  count(probe: Counted['probe'], status: number): void {
    const index = countedAnswers.findIndex((one) => one.probe === probe && one.status === status);
    if (index >= 0) Atomics.add(this.#words, word.counts + index, 1);
  }

  /** Reads the counts and resets them to 0. */
  takeCounts(): readonly { readonly counted: Counted; readonly count: number }[] {
    return countedAnswers.map((counted, i) => {
      return { counted, count: Atomics.exchange(this.#words, word.counts + i, 0) };
    });
  }

  /** The number of ready endpoints on this node, for a health-check node port. */
  setEndpoints(slot: number, count: number): void {
    Atomics.store(this.#endpoints, slot, count);
  }

  endpoints(slot: number): number {
    return Atomics.load(this.#endpoints, slot);
  }
}

function newParts(): MemoryParts {
  return {
    words: new SharedArrayBuffer(4 * (word.counts + countedAnswers.length)),
    facts: new SharedArrayBuffer(factsBytesMax),
    endpoints: new SharedArrayBuffer(4 * slotsMax),
  };
}

/** Without reasons if these are too long. */
function textOf({ atMs, facts }: Published): Buffer {
  const bytes = Buffer.from(JSON.stringify({ atMs, facts }));
  if (bytes.length <= factsBytesMax) return bytes;
  const lists = facts.lists.map((list) => ({ ...list, failure: 'too long to be shown' }));
  return Buffer.from(JSON.stringify({ atMs, facts: { ...facts, lists } }));
}

/**
 * Whether anybody still reads what a command prints that goes on by itself. A `kubectl exec` that is
 * cut leaves its command running in the pod, and nothing tells the command but its streams.
 */
import { fstatSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { isatty } from 'node:tty';
import type { Terminal } from './terminal.ts';

/** Output that nobody has taken for so long has no reader. */
const undrainedMaxMs = 10_000;
/** So long a command runs of which nothing can tell whether it has a reader. */
const unknownMaxMs = 600_000;
const lookMs = 1000;

/** Time, which tests make. */
export interface Clock {
  /** Milliseconds from any beginning. */
  now(): number;
  /** Ends early when `signal` aborts. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** Calls `act` again and again, until what it returns is called. */
  every(ms: number, act: () => void): () => void;
}

/** What surrounds the command, beside its output. */
export interface Surroundings {
  /** A pipe tells by its end that whoever held the other one has gone. */
  readonly input: 'terminal' | 'pipe' | 'none';
  /** Where the output is a file, it needs no reader. */
  readonly isOutputFile: boolean;
  /** `act` is called when the pipe ends. */
  onInputEnd(act: () => void): void;
}

/** Ends what it is made for by `signal`, and what is printed is not waited for any more. */
export class Reader {
  readonly #ending = new AbortController();
  readonly #stdout: Terminal;
  readonly #clock: Clock;
  readonly #stopLooking: () => void;
  readonly #beganMs: number;
  #takenMs: number;
  #isKnown: boolean;
  #reason: string | undefined;

  constructor(stdout: Terminal, clock: Clock, surroundings: Surroundings) {
    this.#stdout = stdout;
    this.#clock = clock;
    this.#beganMs = clock.now();
    this.#takenMs = this.#beganMs;
    const { input, isOutputFile } = surroundings;
    this.#isKnown = stdout.isTTY || isOutputFile || input !== 'none';
    stdout.whenGone(() => this.#end(undefined));
    // A pipe that is at its end from the beginning is how some give a program no input.
    if (input === 'pipe') {
      surroundings.onInputEnd(() => {
        const isAtOnce = clock.now() - this.#beganMs < lookMs;
        if (isAtOnce) this.#isKnown = stdout.isTTY || isOutputFile;
        else this.#end(undefined);
      });
    }
    this.#stopLooking = clock.every(lookMs, () => this.#look());
  }

  /** Aborts when nobody reads any more. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /** What to say at the end; undefined = nothing. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** Waits, or less if nobody reads any more. */
  async pause(ms: number): Promise<void> {
    await this.#clock.sleep(ms, this.signal);
  }

  close(): void {
    this.#stopLooking();
  }

  #look(): void {
    const nowMs = this.#clock.now();
    if (!this.#stdout.isPending) this.#takenMs = nowMs;
    if (nowMs - this.#takenMs >= undrainedMaxMs) {
      this.#end(`nobody has read its output for ${undrainedMaxMs / 1000} s`);
    } else if (!this.#isKnown && nowMs - this.#beganMs >= unknownMaxMs) {
      const minutes = unknownMaxMs / 60_000;
      this.#end(
        `it ends after ${minutes} minutes, because without a terminal and standard input nothing ` +
          'tells whether its output is read; kubectl exec -i gives it standard input',
      );
    }
  }

  #end(reason: string | undefined): void {
    this.#reason ??= reason;
    this.#stdout.abandon();
    this.#ending.abort();
  }
}

export const realClock: Clock = {
  now: () => performance.now(),
  sleep: (ms, signal) => sleep(ms, undefined, { signal }).catch(() => {}),
  every: (ms, act) => {
    const timer = setInterval(act, ms).unref();
    return () => clearInterval(timer);
  },
};

/** Those of this process. */
export function surroundings(): Surroundings {
  return {
    input: isatty(0) ? 'terminal' : isPipe(0) ? 'pipe' : 'none',
    isOutputFile: kindOf(1)?.isFile() ?? false,
    onInputEnd: (act) => {
      process.stdin.on('end', act).on('close', act).on('error', act).resume();
    },
  };
}

function isPipe(fd: number): boolean {
  const kind = kindOf(fd);
  return kind !== undefined && (kind.isFIFO() || kind.isSocket());
}

/** Undefined when it is not open. */
function kindOf(fd: number): ReturnType<typeof fstatSync> | undefined {
  try {
    return fstatSync(fd);
  } catch {
    return undefined;
  }
}

/**
 * Whether the output of a continuous command is still read. If `kubectl exec` is disconnected, its
 * command continues to run in the pod, and only its streams show it.
 */
import { fstatSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { isatty } from 'node:tty';
import type { Terminal } from './terminal.ts';

/** Output that was not read for this time has no reader. */
const undrainedMaxMs = 10_000;
/** How long a command runs if nothing shows whether it has a reader. */
const unknownMaxMs = 600_000;
const lookMs = 1000;

/** Time, which tests replace. */
export interface Clock {
  /** Milliseconds from an arbitrary start. */
  now(): number;
  /** Ends early when `signal` aborts. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** Calls `act` repeatedly, until the returned function is called. */
  every(ms: number, act: () => void): () => void;
}

/** The environment of the command, except its output. */
export interface Surroundings {
  /** The end of a pipe shows that its other end was closed. */
  readonly input: 'terminal' | 'pipe' | 'none';
  /** If the output is a file, it needs no reader. */
  readonly isOutputFile: boolean;
  /** `act` is called when the pipe ends. */
  onInputEnd(act: () => void): void;
}

/** Ends the command by `signal`, and stops waiting for the output to be read. */
class Reader {
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
    // A pipe that is at its end from the start means "no input", as some programs use it.
    if (input === 'pipe') {
      surroundings.onInputEnd(() => {
        const isAtOnce = clock.now() - this.#beganMs < lookMs;
        if (isAtOnce) this.#isKnown = stdout.isTTY || isOutputFile;
        else this.#end(undefined);
      });
    }
    this.#stopLooking = clock.every(lookMs, () => this.#look());
  }

  /** Aborts when the output is no longer read. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /** The message at the end; undefined = none. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** Waits, or less if the output is no longer read. */
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
      this.#end(`its output was not read for ${undrainedMaxMs / 1000} s`);
    } else if (!this.#isKnown && nowMs - this.#beganMs >= unknownMaxMs) {
      const minutes = unknownMaxMs / 60_000;
      this.#end(
        `it ends after ${minutes} minutes, because without a terminal and standard input nothing ` +
          'shows whether its output is read; kubectl exec -i gives it standard input',
      );
    }
  }

  #end(reason: string | undefined): void {
    this.#reason ??= reason;
    this.#stdout.abandon();
    this.#ending.abort();
  }
}

interface Readable {
  readonly stdout: Terminal;
  readonly stderr: Pick<Terminal, 'write'>;
  readonly clock?: Clock;
  readonly surroundings?: Surroundings;
}

/** Runs a continuous command. Prints why it ended, if its output was no longer read. */
export async function whileRead<T>(
  { clock = realClock, stderr, stdout, surroundings }: Readable,
  command: string,
  act: (reader: Reader) => Promise<T>,
): Promise<T> {
  const reader = new Reader(stdout, clock, surroundings ?? ownSurroundings());
  try {
    return await act(reader);
  } finally {
    reader.close();
    if (reader.reason !== undefined) stderr.write(`fairlead: ${command}: ${reader.reason}\n`);
  }
}

const realClock: Clock = {
  now: () => performance.now(),
  sleep: (ms, signal) => sleep(ms, undefined, { signal }).catch(() => {}),
  every: (ms, act) => {
    const timer = setInterval(act, ms).unref();
    return () => clearInterval(timer);
  },
};

/** Those of this process. */
function ownSurroundings(): Surroundings {
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

/** Undefined if it is not open. */
function kindOf(fd: number): ReturnType<typeof fstatSync> | undefined {
  try {
    return fstatSync(fd);
  } catch {
    return undefined;
  }
}

/**
 * Where the lines of the log go. Logging never waits: when a reader has stopped, a disk is full or
 * a pipe is closed, lines are lost and nothing else happens. They are counted, and when there is
 * room again, a line says how many are missing.
 */
import type { DestinationStream } from 'pino';
import type { LineWriter } from '../kernel/addon.ts';
import { printable } from './printable.ts';

interface LogDestinationOptions {
  readonly writer: LineWriter;
  /** pino's line, without its newline, as it is to be written. */
  readonly format: (line: string) => string;
  /** pino's line that tells of lines that were left out. */
  readonly notice: (count: number) => string;
  /** How much may wait for its reader. Default 1 MiB. */
  readonly pendingBytesMax?: number;
}

const pendingBytesDefault = 1 << 20;
/** How often it looks for room while nobody logs. */
const lookMs = 1000;
/** How long a process that ends waits for its last lines. */
const flushLongestMs = 1000;
const fatal = '{"level":"fatal"';

export class LogDestination implements DestinationStream {
  readonly #options: LogDestinationOptions;
  readonly #pendingBytesMax: number;
  /** Lines left out since the start, and those of them that no line has reported. */
  #leftOut = 0;
  #untold = 0;
  #look: NodeJS.Timeout | undefined;

  constructor(options: LogDestinationOptions) {
    this.#options = options;
    this.#pendingBytesMax = options.pendingBytesMax ?? pendingBytesDefault;
  }

  /** Lines that were left out since the start. */
  get leftOut(): number {
    return this.#leftOut;
  }

  write(line: string): void {
    this.#tell();
    // The last line before the process ends is always written.
    if (!this.#hasRoom(line.length) && !line.startsWith(fatal)) {
      this.#leftOut += 1;
      this.#untold += 1;
      this.#look ??= setInterval(() => this.#tell(), lookMs).unref();
      return;
    }
    this.#push(line);
  }

  /** Waits until all is written, a second at most. */
  flushSync(): void {
    this.#options.writer.drain(flushLongestMs);
  }

  /** After lines were left out, half of the room must be free, so that one notice tells of many. */
  #hasRoom(length: number): boolean {
    if (this.#untold > 0) return false;
    return this.#options.writer.pendingBytes() + length <= this.#pendingBytesMax;
  }

  #tell(): void {
    const { writer, notice } = this.#options;
    if (this.#untold === 0 || writer.pendingBytes() > this.#pendingBytesMax / 2) return;
    const count = this.#untold;
    this.#untold = 0;
    clearInterval(this.#look);
    this.#look = undefined;
    this.#push(notice(count));
  }

  #push(line: string): void {
    const { format, writer } = this.#options;
    writer.push(`${printable(format(line.trimEnd()))}\n`);
  }
}

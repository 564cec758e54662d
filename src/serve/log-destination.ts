/**
 * Writes the lines of the log. Logging never waits: if a reader has stopped, a disk is full or a
 * pipe is closed, lines are lost and nothing else happens. Lost lines are counted, and the next
 * line that can be written reports their number.
 */
import type { DestinationStream } from 'pino';
import type { LineWriter } from '../kernel/addon.ts';
import { printable } from './printable.ts';

interface LogDestinationOptions {
  readonly writer: LineWriter;
  /** pino's line, without its newline, in the form to be written. */
  readonly format: (line: string) => string;
  /** pino's line that reports lost lines. */
  readonly notice: (count: number) => string;
  /** The most bytes that may wait to be written. Default 1 MiB. */
  readonly pendingBytesMax?: number;
}

const pendingBytesDefault = 1 << 20;
/** How often to try again while no lines are logged. */
const lookMs = 1000;
/** How long a process that ends waits for its last lines. */
const flushLongestMs = 1000;
const fatal = '{"level":"fatal"';

export class LogDestination implements DestinationStream {
  readonly #options: LogDestinationOptions;
  readonly #pendingBytesMax: number;
  /** Lines lost since the start, and those of them not yet reported. */
  #leftOut = 0;
  #unreported = 0;
  #look: NodeJS.Timeout | undefined;

  constructor(options: LogDestinationOptions) {
    this.#options = options;
    this.#pendingBytesMax = options.pendingBytesMax ?? pendingBytesDefault;
  }

  /** Lines lost since the start. */
  get leftOut(): number {
    return this.#leftOut;
  }

  write(line: string): void {
    this.#reportLost();
    // The last line before the process ends is always written.
    if (!this.#hasRoom(line.length) && !line.startsWith(fatal)) {
      this.#leftOut += 1;
      this.#unreported += 1;
      this.#look ??= setInterval(() => this.#reportLost(), lookMs).unref();
      return;
    }
    this.#push(line);
  }

  /** Waits until all is written, at most a second. */
  flushSync(): void {
    this.#options.writer.drain(flushLongestMs);
  }

  /** After lines were lost, half of the space must be free, so that one notice reports many. */
  #hasRoom(length: number): boolean {
    if (this.#unreported > 0) return false;
    return this.#options.writer.pendingBytes() + length <= this.#pendingBytesMax;
  }

  #reportLost(): void {
    const { writer, notice } = this.#options;
    if (this.#unreported === 0 || writer.pendingBytes() > this.#pendingBytesMax / 2) return;
    const count = this.#unreported;
    this.#unreported = 0;
    clearInterval(this.#look);
    this.#look = undefined;
    this.#push(notice(count));
  }

  #push(line: string): void {
    const { format, writer } = this.#options;
    writer.push(`${printable(format(line.trimEnd()))}\n`);
  }
}

/**
 * Where commands print. No other code writes to standard output and error, so that only printable
 * text reaches a terminal: names, zones and messages come from objects that tenants write.
 */
import { isatty } from 'node:tty';
import { printableText } from '../serve/printable.ts';
import { anyMark } from '../serve/text.ts';

/** A stream like Node's; only `write` is needed. */
export interface OutputStream {
  /** `taken` is called once the text, and all before it, was taken by the reader. */
  write(text: string | Uint8Array, taken?: () => void): unknown;
  readonly isTTY?: boolean;
  readonly rows?: number;
  /** Bytes that the reader has not taken. */
  readonly writableLength?: number;
  readonly on?: (event: 'error' | 'close', act: () => void) => unknown;
}

/** The escape sequences of terminals: red, green, and reset. */
const colours: Readonly<Record<string, string>> = {
  r: '\u001b[31m',
  g: '\u001b[32m',
  '.': '\u001b[39m',
};

/** Clears a terminal and moves to its upper left corner. */
const clear = '\u001b[2J\u001b[H';

export class Terminal {
  readonly #open: () => OutputStream;
  #stream: OutputStream | undefined;
  #isGone = false;
  readonly #onGone: (() => void)[] = [];

  /** `open` is called by the first use: getting a stream from Node changes the pipe behind it. */
  constructor(open: () => OutputStream) {
    this.#open = open;
  }

  /** Characters that are not printable are written as `\uXXXX`, except tabs and newlines. */
  write(text: string): void {
    const stream = this.#opened();
    if (!this.#isGone) stream.write(this.#shown(text));
  }

  #shown(text: string): string {
    const hasColours = this.isTTY && (process.env.NO_COLOR ?? '') === '';
    const parts = text.split(anyMark);
    // Every second part is the letter of a mark.
    return parts
      .map((part, i) => (i % 2 === 0 ? printableText(part) : hasColours ? colours[part] : ''))
      .join('');
  }

  /** Bytes of an archive, unchanged. Not for a terminal. */
  writeArchive(bytes: Uint8Array): void {
    const stream = this.#opened();
    if (!this.#isGone && !this.isTTY) stream.write(bytes);
  }

  /** Replaces the contents of the screen; if the output is not a terminal, writes only the text. */
  redraw(text: string): void {
    if (this.isTTY) this.#opened().write(clear);
    this.write(text);
  }

  get isTTY(): boolean {
    return this.#opened().isTTY === true;
  }

  /** The lines of the screen; undefined = not a terminal. */
  get rows(): number | undefined {
    return this.#opened().rows;
  }

  /** Whether output waits for the reader. */
  get isPending(): boolean {
    return !this.#isGone && (this.#stream?.writableLength ?? 0) > 0;
  }

  /** `act` is called when the reader is gone, immediately if it already is. */
  whenGone(act: () => void): void {
    this.#opened();
    if (this.#isGone) act();
    else this.#onGone.push(act);
  }

  /** Stops writing, and waiting for the reader. */
  abandon(): void {
    this.#isGone = true;
  }

  /** Resolves when the reader has taken everything or is gone, or when `signal` aborts. */
  async drained(signal: AbortSignal): Promise<void> {
    if (!this.isPending || signal.aborted) return;
    await new Promise<void>((resolve) => {
      this.#stream?.write('', resolve);
      this.whenGone(resolve);
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  #opened(): OutputStream {
    if (this.#stream !== undefined) return this.#stream;
    const stream = this.#open();
    this.#stream = stream;
    const gone = (): void => {
      this.#isGone = true;
      for (const act of this.#onGone) act();
    };
    stream.on?.('error', gone);
    stream.on?.('close', gone);
    return stream;
  }
}

/** How long the process waits for its reader, unless it was started at a terminal. */
const untakenMaxMs = 600_000;

/** Called before the process ends: a pipe takes 64 KiB, and the rest only as it is read. */
export async function allTaken(): Promise<void> {
  const { stderr, stdout } = terminal;
  if (!stdout.isPending && !stderr.isPending) return;
  const signal = isatty(0) ? new AbortController().signal : AbortSignal.timeout(untakenMaxMs);
  await Promise.all([stdout.drained(signal), stderr.drained(signal)]);
}

/** That of this process. */
export const terminal = {
  stdout: new Terminal(() => process.stdout),
  stderr: new Terminal(() => process.stderr),
} as const;

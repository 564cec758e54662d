/** The demo's output: with some colour on a terminal, plain text in a pipe. */
import type { WriteStream } from 'node:tty';
import { styleText } from 'node:util';
import type { BatchSize } from './batches.ts';
import type { Outcome } from './pod.ts';

const barWidth = 40;

export class Page {
  readonly #out: WriteStream;

  constructor(out: WriteStream) {
    this.#out = out;
  }

  title(text: string): void {
    this.#line(this.#styled('bold', text));
  }

  heading(text: string): void {
    this.#line('');
    this.#line(this.#styled('cyan', `— ${text}`));
  }

  /** A change, and what of it the kernel was sent. */
  change(label: string, { writes, bytes }: BatchSize): void {
    const sent = `${count(writes)} ${writes === 1 ? 'write' : 'writes'} to the kernel`;
    this.#line(`  ${label.padEnd(34)}${sent}, ${count(bytes)} bytes`);
  }

  /** The servers that answered, as bars; the number of failures. */
  outcome({ answers, failures }: Outcome): void {
    const servers = Object.entries(answers).sort(([a], [b]) => (a < b ? -1 : 1));
    const most = Math.max(...servers.map(([, answered]) => answered));
    for (const [server, answered] of servers) {
      const bar = '█'.repeat(Math.round((answered / most) * barWidth));
      this.#line(`  ${server}  ${count(answered).padStart(7)}  ${this.#styled('blue', bar)}`);
    }
    const sum = (counts: Readonly<Record<string, number>>): number =>
      Object.values(counts).reduce((all, one) => all + one, 0);
    const failed = sum(failures);
    const verdict = this.#styled(failed === 0 ? 'green' : 'red', `${count(failed)} failed`);
    this.#line(`  ${count(sum(answers) + failed)} connections, ${verdict}`);
    for (const [code, times] of Object.entries(failures)) this.#line(`  ${code}: ${times}`);
  }

  listing(text: string): void {
    this.#line(this.#styled('dim', text.trimEnd()));
  }

  /** A command as if typed, and its output. */
  command(words: readonly string[], printed: string): void {
    this.#line(this.#styled('bold', `  $ ${words.join(' ')}`));
    for (const line of printed.trimEnd().split('\n')) this.#line(`  ${line}`.trimEnd());
  }

  text(line: string): void {
    this.#line(`  ${line}`);
  }

  #styled(style: 'bold' | 'cyan' | 'blue' | 'green' | 'red' | 'dim', text: string): string {
    return this.#out.isTTY ? styleText(style, text) : text;
  }

  #line(text: string): void {
    this.#out.write(`${text}\n`);
  }
}

function count(value: number): string {
  return Math.round(value).toLocaleString('en');
}
